// SPDX-License-Identifier: Apache-2.0
// For builds with a sanitizer: what programs with a window need beside the suppressions of tests/*_suppressions.txt.

// Libraries stay loaded to the end of the process. OpenGL's driver would be gone when leaks are reported, its frames
// without a name, and suppressions go by name; ThreadSanitizer ends a process that unloads a library it has a
// suppression for.
extern "C" int dlclose(void* /*library*/) noexcept {
  return 0;
}

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer does not see how X11, GLX and Mesa give their locks back, so that these pile up until its detector
// of deadlocks, which follows 64 at a time, ends the process; headscope's locks are watched by it in the tests without
// a window.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "detect_deadlocks=0";
}
#endif
