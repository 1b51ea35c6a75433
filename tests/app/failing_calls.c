// LD_PRELOAD: calls of the C library that fail as they do on a machine at its limits.
//
//   HEADSCOPE_FAILING_CALLS=memory|threads|writes|reads|opens   the kind
//   HEADSCOPE_FAILING_FROM=N    the first that fails, counted from 1 (0: none)
//   HEADSCOPE_FAILING_COUNT=N   how many fail (0: all from there on)
//   HEADSCOPE_CALLS_FILE=FILE   the number of calls of that kind, written at the end
//
// Counted are the calls between main's beginning and its end, and of files those outside /proc and /sys.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kNone, kMemory, kThreads, kWrites, kReads, kOpens };
static enum Kind chosen = kNone;
static long from = 0, count = 0;
static atomic_long calls;
static int inside = 0;  // main

static int Fails(enum Kind kind) {
  if (kind != chosen || !inside) return 0;
  const long call = atomic_fetch_add(&calls, 1) + 1;
  return from > 0 && call >= from && (count == 0 || call < from + count);
}

static long Number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

__attribute__((constructor)) static void Begin(void) {
  const char* const kinds[] = {"", "memory", "threads", "writes", "reads", "opens"};
  const char* kind = getenv("HEADSCOPE_FAILING_CALLS");
  from = Number("HEADSCOPE_FAILING_FROM");
  count = Number("HEADSCOPE_FAILING_COUNT");
  for (int i = 1; kind != NULL && i <= kOpens; ++i) {
    if (strcmp(kind, kinds[i]) == 0) chosen = (enum Kind)i;
  }
}

__attribute__((destructor)) static void End(void) {
  const char* path = getenv("HEADSCOPE_CALLS_FILE");
  chosen = kNone;
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", atomic_load(&calls));
  fclose(file);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// The C library's own, under their other names: dlsym itself asks for memory.
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static int NoMemory(void) {
  if (!Fails(kMemory)) return 0;
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
  if (!Fails(kWrites)) return 0;
  errno = ENOSPC;
  return 1;
}
int rename(const char* old, const char* new) {
  return NoName() ? -1 : REAL(rename)(old, new);
}
int renameat2(int old_folder, const char* old, int new_folder, const char* new, unsigned flags) {
  return NoName() ? -1 : REAL(renameat2)(old_folder, old, new_folder, new, flags);
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
