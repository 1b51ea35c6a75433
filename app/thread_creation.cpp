// SPDX-License-Identifier: Apache-2.0
// pthread_create, for the whole process. LibTorch's thread pool waits for ever for a thread that could not be started,
// and OpenMP's runtime ends the process in words of its own; neither can be told to do otherwise. Whoever else asks
// (the standard library, Qt) is given the error and copes with it.
#include <dlfcn.h>
#include <pthread.h>

#include <cstring>

#include "support/messages.h"
#include "support/sudden_end.h"

namespace {

bool CannotCope(const void* caller) {
  Dl_info place{};
  if (::dladdr(caller, &place) == 0 || place.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(place.dli_fname, '/');
  const char* file = slash == nullptr ? place.dli_fname : slash + 1;
  for (const char* library : {"libtorch", "libgomp", "libiomp", "libomp", "libmkl"}) {
    if (std::strncmp(file, library, std::strlen(library)) == 0) return true;
  }
  return false;
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int error = create(thread, attributes, run, argument);
  if (error != 0 && CannotCope(__builtin_return_address(0))) headscope::app::EndSuddenly(headscope::app::kOutOfThreads);
  return error;
}
