// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: calls of the C library that fail as they do on a machine at its limits.
//
//   HEADSCOPE_FAILING_CALLS=memory|teams|threads|writes|reads|opens|names   the kind; teams: what libgomp itself wants memory for;
//                               names: what gives a file a name or takes it away
//   HEADSCOPE_FAILING_FROM=N    the first that fails, counted from 1 (0: none)
//   HEADSCOPE_FAILING_COUNT=N   how many fail (0: all from there on)
//   HEADSCOPE_FAILING_KILLS=1   instead of failing such a call is not made, for the process is killed
//   HEADSCOPE_NO_LINKS=1        no file gets a second name, as on some file systems; not counted
//   HEADSCOPE_CALLS_FILE=FILE   the number of calls of that kind, written at the end, and then, a line each, the number of
//                               the first call from every site and whether that is libhdf5's
//
// A site is where the program, its LibTorch half and libhdf5 stand on the stack: the innermost HEADSCOPE_SITE_FRAMES of
// their frames. Calls that differ in what LibTorch or the standard library do between are of one site.
//
// Counted are the calls between main's beginning and its end, and of files those outside /proc and /sys.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kNone, kMemory, kTeams, kThreads, kWrites, kReads, kOpens, kNames };
static enum Kind chosen = kNone;
static long from = 0, count = 0;
static atomic_long calls;
static int inside = 0;  // main
static long kills = 0, no_links = 0;

enum { kMostFrames = 40, kMostSites = 1 << 15 };
static struct Site {
  uint64_t key;
  long call;
  int of_hdf5;
} sites[kMostSites];
static int num_sites = 0;
static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;
static long site_frames = 0;  // 0: nobody looks
static __thread int looking = 0;  // the unwinder asks for memory too

// 0: another's code, 1: headscope's, 2: libhdf5's.
static int WhoseCode(void* address, uint64_t* place) {
  struct dl_find_object found;
  if (_dl_find_object(address, &found) != 0) return 0;
  const char* name = found.dlfo_link_map->l_name;
  *place = (uint64_t)((char*)address - (char*)found.dlfo_link_map->l_addr);
  if (strstr(name, "libhdf5") != NULL) return 2;
  return name[0] == '\0' || strstr(name, "libheadscope") != NULL;
}

// The program's own allocators stand between every caller and these.
static int IsAllocator(void* address) {
  static const char* const names[] = {"malloc", "calloc", "realloc", "aligned_alloc", "memalign"};
  static char* begins[5];
  for (int i = 0; i < 5; ++i) {
    if (begins[i] == NULL) begins[i] = dlsym(RTLD_DEFAULT, names[i]);
    if ((char*)address >= begins[i] && (char*)address < begins[i] + 256) return 1;
  }
  return 0;
}

static void LookAtSite(long call) {
  if (looking) return;
  looking = 1;
  void* frames[kMostFrames];
  const int depth = backtrace(frames, kMostFrames);
  uint64_t key = 14695981039346656037u;
  int own = 0, of_hdf5 = 0;
  for (int i = 1; i < depth && own < site_frames; ++i) {
    uint64_t place = 0;
    const int whose = WhoseCode(frames[i], &place);
    if (whose == 0 || (own == 0 && IsAllocator(frames[i]))) continue;
    if (own++ == 0) of_hdf5 = whose == 2;
    key = (key ^ place ^ ((uint64_t)whose << 60)) * 1099511628211u;
  }
  pthread_mutex_lock(&sites_lock);
  size_t slot = (size_t)(key % kMostSites);
  while (sites[slot].call != 0 && sites[slot].key != key) slot = (slot + 1) % kMostSites;
  if (sites[slot].call == 0 && num_sites < kMostSites / 2) {
    sites[slot] = (struct Site){key, call, of_hdf5};
    ++num_sites;
  }
  pthread_mutex_unlock(&sites_lock);
  looking = 0;
}

static int Fails(enum Kind kind) {
  if (kind != chosen || !inside || looking) return 0;
  const long call = atomic_fetch_add(&calls, 1) + 1;
  if (site_frames > 0) LookAtSite(call);
  const int fails = from > 0 && call >= from && (count == 0 || call < from + count);
  if (fails && kills) kill(getpid(), SIGKILL);
  return fails;
}

static long Number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

// Where libgomp is, if it is loaded before main() begins, as Qt's libraries have it.
static uintptr_t teams_begin = 0, teams_size = 0;

// As main() begins: a fork has settings of its own (forking_main.c).
static void End(void);
static void Begin(void) {
  at_quick_exit(End);  // how a command that has run LibTorch ends
  const char* const kinds[] = {"", "memory", "teams", "threads", "writes", "reads", "opens", "names"};
  const char* kind = getenv("HEADSCOPE_FAILING_CALLS");
  from = Number("HEADSCOPE_FAILING_FROM");
  count = Number("HEADSCOPE_FAILING_COUNT");
  kills = Number("HEADSCOPE_FAILING_KILLS");
  no_links = Number("HEADSCOPE_NO_LINKS");
  site_frames = Number("HEADSCOPE_SITE_FRAMES");
  for (int i = 1; kind != NULL && i <= kNames; ++i) {
    if (strcmp(kind, kinds[i]) == 0) chosen = (enum Kind)i;
  }
  void* known = dlsym(RTLD_DEFAULT, "GOMP_parallel");
  struct dl_find_object found;
  if (known != NULL && _dl_find_object(known, &found) == 0) {
    teams_begin = (uintptr_t)found.dlfo_map_start;
    teams_size = (uintptr_t)found.dlfo_map_end - teams_begin;
  }
}

__attribute__((destructor)) static void End(void) {
  const char* path = getenv("HEADSCOPE_CALLS_FILE");
  chosen = kNone;
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", atomic_load(&calls));
  for (int i = 0; i < kMostSites; ++i) {
    if (sites[i].call != 0) fprintf(file, "%ld %d\n", sites[i].call, sites[i].of_hdf5);
  }
  fclose(file);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// The C library's own, under their other names: dlsym itself asks for memory.
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

// Whether the next frames may be libgomp's: a command allocates half a million times, and unwinding each takes twice as
// long as all else.
static int TeamsMayAsk(void) {
  enum { kWords = 128 };  // the few frames of allocators are smaller
  const uintptr_t* stack = __builtin_frame_address(0);
  for (int i = 0; i < kWords; ++i) {
    if (stack[i] - teams_begin < teams_size) return 1;
  }
  return teams_size == 0;
}

// Whether libgomp is whoever asked an allocator. With threads at work the number of its call among all others differs from
// run to run.
static int OfTeams(void) {
  if (chosen != kTeams || !inside || looking || !TeamsMayAsk()) return 0;
  looking = 1;
  void* frames[6];
  const int depth = backtrace(frames, 6);
  looking = 0;
  for (int i = 1; i < depth; ++i) {
    struct dl_find_object found;
    if (_dl_find_object(frames[i], &found) != 0) return 0;
    const char* name = found.dlfo_link_map->l_name;
    if (strstr(name, "libgomp") != NULL) return 1;
    if (!IsAllocator(frames[i]) && strstr(name, "failing_calls") == NULL) return 0;
  }
  return 0;
}

static int NoMemory(void) {
  if (!Fails(kMemory) && !(OfTeams() && Fails(kTeams))) return 0;
  errno = ENOMEM;
  return 1;
}
void* malloc(size_t size) {
  return NoMemory() ? NULL : __libc_malloc(size);
}
void* calloc(size_t number, size_t size) {
  return NoMemory() ? NULL : __libc_calloc(number, size);
}
void* realloc(void* block, size_t size) {
  return NoMemory() ? NULL : __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
  return NoMemory() ? NULL : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  if (NoMemory()) return ENOMEM;
  *block = __libc_memalign(alignment, size);
  return *block == NULL ? ENOMEM : 0;
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  if ((flags & MAP_ANONYMOUS) && NoMemory()) return MAP_FAILED;
  return (void*)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  return Fails(kThreads) ? EAGAIN : REAL(pthread_create)(thread, attributes, run, argument);
}

// Messages are written whatever fails.
static int NoSpace(int file) {
  if (file <= STDERR_FILENO || !Fails(kWrites)) return 0;
  errno = ENOSPC;
  return 1;
}
ssize_t write(int file, const void* data, size_t size) {
  return NoSpace(file) ? -1 : REAL(write)(file, data, size);
}
ssize_t writev(int file, const struct iovec* parts, int number) {
  return NoSpace(file) ? -1 : REAL(writev)(file, parts, number);
}
ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
  return NoSpace(file) ? -1 : REAL(pwrite)(file, data, size, at);
}
ssize_t pwrite64(int file, const void* data, size_t size, off64_t at) {
  return NoSpace(file) ? -1 : REAL(pwrite64)(file, data, size, at);
}
int ftruncate(int file, off_t size) {
  return NoSpace(file) ? -1 : REAL(ftruncate)(file, size);
}
int ftruncate64(int file, off64_t size) {
  return NoSpace(file) ? -1 : REAL(ftruncate64)(file, size);
}
int fsync(int file) {
  return NoSpace(file) ? -1 : REAL(fsync)(file);
}
static int NoName(void) {
  if (!Fails(kWrites) && !Fails(kNames)) return 0;
  errno = ENOSPC;
  return 1;
}
int rename(const char* old, const char* new) {
  return NoName() ? -1 : REAL(rename)(old, new);
}
int renameat2(int old_folder, const char* old, int new_folder, const char* new, unsigned flags) {
  return NoName() ? -1 : REAL(renameat2)(old_folder, old, new_folder, new, flags);
}

int link(const char* old, const char* new) {
  if (no_links) errno = EPERM;
  return no_links || NoName() ? -1 : REAL(link)(old, new);
}
int unlink(const char* path) {
  if (!Fails(kNames)) return REAL(unlink)(path);
  errno = EPERM;
  return -1;
}

// Descriptors of files that the system makes up, which no disk can fail.
static char made_up[4096];
static int OfSystem(int file) {
  return file >= 0 && file < (int)sizeof made_up && made_up[file];
}

static int NoData(int file) {
  if (OfSystem(file) || !Fails(kReads)) return 0;
  errno = EIO;
  return 1;
}
ssize_t read(int file, void* data, size_t size) {
  return NoData(file) ? -1 : REAL(read)(file, data, size);
}
ssize_t pread(int file, void* data, size_t size, off_t at) {
  return NoData(file) ? -1 : REAL(pread)(file, data, size, at);
}
ssize_t pread64(int file, void* data, size_t size, off64_t at) {
  return NoData(file) ? -1 : REAL(pread64)(file, data, size, at);
}

static int IsOfSystem(const char* path) {
  return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
}
static int NoFile(const char* path) {
  if (IsOfSystem(path) || !Fails(kOpens)) return 0;
  errno = EMFILE;
  return 1;
}
static int Opened(const char* path, int file) {
  if (file >= 0 && file < (int)sizeof made_up) made_up[file] = (char)IsOfSystem(path);
  return file;
}
#define MODE_OF(flags)                   \
  mode_t mode = 0;                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list rest;                        \
    va_start(rest, flags);               \
    mode = va_arg(rest, mode_t);         \
    va_end(rest);                        \
  }
int open(const char* path, int flags, ...) {
  MODE_OF(flags)
  return NoFile(path) ? -1 : Opened(path, REAL(open)(path, flags, mode));
}
int open64(const char* path, int flags, ...) {
  MODE_OF(flags)
  return NoFile(path) ? -1 : Opened(path, REAL(open64)(path, flags, mode));
}
int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  return NoFile(path) ? -1 : Opened(path, REAL(openat)(folder, path, flags, mode));
}
int openat64(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  return NoFile(path) ? -1 : Opened(path, REAL(openat64)(folder, path, flags, mode));
}
static FILE* OpenedFile(const char* path, FILE* file) {
  if (file != NULL) Opened(path, fileno(file));
  return file;
}
FILE* fopen(const char* path, const char* mode) {
  return NoFile(path) ? NULL : OpenedFile(path, REAL(fopen)(path, mode));
}
FILE* fopen64(const char* path, const char* mode) {
  return NoFile(path) ? NULL : OpenedFile(path, REAL(fopen64)(path, mode));
}

static int (*real_main)(int, char**, char**);
static int Main(int number, char** arguments, char** environment) {
  Begin();
  inside = 1;
  const int code = real_main(number, arguments, environment);
  inside = 0;
  return code;
}
int __libc_start_main(int (*main)(int, char**, char**), int number, char** arguments, void (*begin)(void),
                      void (*end)(void), void (*linker_end)(void), void* stack_end) {
  int (*real)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*) =
      (__typeof__(real))dlsym(RTLD_NEXT, "__libc_start_main");
  real_main = main;
  return real(Main, number, arguments, begin, end, linker_end, stack_end);
}
