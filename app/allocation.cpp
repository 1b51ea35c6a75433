// SPDX-License-Identifier: Apache-2.0
// malloc, calloc, realloc, aligned_alloc and memalign, for the whole process. libhdf5 and libcrypto go on with what
// they were not given, or exit in silence, and the dynamic linker ends the process in words of its own; none can be
// told to do otherwise. Whoever else asks is given nothing and copes with it.
#include <dlfcn.h>
#include <unwind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "support/messages.h"
#include "support/sudden_end.h"

// The C library's own, for whoever asks before dlsym can be asked: dlsym may want memory itself.
extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);
extern "C" void* __libc_memalign(size_t, size_t);

namespace {

using Malloc = void* (*)(size_t);
using Calloc = void* (*)(size_t, size_t);
using Realloc = void* (*)(void*, size_t);
using Aligned = void* (*)(size_t alignment, size_t size);

struct Next {
  std::atomic<bool> asked{false}, known{false};
  Malloc malloc = nullptr;
  Calloc calloc = nullptr;
  Realloc realloc = nullptr;
  Aligned aligned_alloc = nullptr;
  Aligned memalign = nullptr;
};
constinit Next next;

bool Known() {
  if (next.known.load(std::memory_order_acquire)) return true;
  if (next.asked.exchange(true)) return false;
  next.malloc = reinterpret_cast<Malloc>(::dlsym(RTLD_NEXT, "malloc"));
  next.calloc = reinterpret_cast<Calloc>(::dlsym(RTLD_NEXT, "calloc"));
  next.realloc = reinterpret_cast<Realloc>(::dlsym(RTLD_NEXT, "realloc"));
  next.aligned_alloc = reinterpret_cast<Aligned>(::dlsym(RTLD_NEXT, "aligned_alloc"));
  next.memalign = reinterpret_cast<Aligned>(::dlsym(RTLD_NEXT, "memalign"));
  next.known.store(next.malloc != nullptr && next.calloc != nullptr && next.realloc != nullptr &&
                       next.aligned_alloc != nullptr && next.memalign != nullptr,
                   std::memory_order_release);
  return next.known.load();
}

enum class Whose { kOthers, kCLibrary, kCannotCope };

Whose WhoseCode(const void* address) {
  Dl_info place{};
  if (::dladdr(address, &place) == 0 || place.dli_fname == nullptr) return Whose::kOthers;
  const char* slash = std::strrchr(place.dli_fname, '/');
  const char* file = slash == nullptr ? place.dli_fname : slash + 1;
  for (const char* library : {"libhdf5", "libcrypto", "libgomp", "ld-linux"}) {
    if (std::strncmp(file, library, std::strlen(library)) == 0) return Whose::kCannotCope;
  }
  return std::strncmp(file, "libc.", 5) == 0 ? Whose::kCLibrary : Whose::kOthers;
}

// What the C library wants memory for (a copy of a text, one that is being put together), its own caller needs.
struct Walk {
  int frames_left = 12;
  bool met_c_library = false;
  Whose whose = Whose::kOthers;
};

_Unwind_Reason_Code Look(_Unwind_Context* context, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(context));
  walk->whose = WhoseCode(reinterpret_cast<const void*>(address - 1));
  // The frames of this unit come first.
  const bool between = walk->whose == Whose::kCLibrary || (!walk->met_c_library && walk->whose == Whose::kOthers);
  walk->met_c_library = walk->met_c_library || walk->whose == Whose::kCLibrary;
  return between && --walk->frames_left > 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool CannotCope(const void* caller) {
  const Whose whose = WhoseCode(caller);
  if (whose != Whose::kCLibrary) return whose == Whose::kCannotCope;
  Walk walk;
  _Unwind_Backtrace(&Look, &walk);
  return walk.whose == Whose::kCannotCope;
}

void* Given(void* block, size_t size, const void* caller) {
  if (block == nullptr && size > 0 && CannotCope(caller)) headscope::app::EndSuddenly(headscope::app::kOutOfMemory);
  return block;
}

}  // namespace

extern "C" void* malloc(size_t size) {
  return Given(Known() ? next.malloc(size) : __libc_malloc(size), size, __builtin_return_address(0));
}

extern "C" void* calloc(size_t number, size_t size) {
  return Given(Known() ? next.calloc(number, size) : __libc_calloc(number, size), number * size,
               __builtin_return_address(0));
}

extern "C" void* realloc(void* block, size_t size) {
  return Given(Known() ? next.realloc(block, size) : __libc_realloc(block, size), size, __builtin_return_address(0));
}

// libgomp's ways to the memory of a team of threads: some builds of it ask here, Debian's 12 below.
extern "C" void* aligned_alloc(size_t alignment, size_t size) {
  return Given(Known() ? next.aligned_alloc(alignment, size) : __libc_memalign(alignment, size), size,
               __builtin_return_address(0));
}

extern "C" void* memalign(size_t alignment, size_t size) {
  return Given(Known() ? next.memalign(alignment, size) : __libc_memalign(alignment, size), size,
               __builtin_return_address(0));
}
