// For builds with a sanitizer: libraries stay loaded to the end of the process. OpenGL's driver would be gone when
// leaks are reported, its frames without a name, and suppressions (tests/lsan_suppressions.txt) go by name;
// ThreadSanitizer ends a process that unloads a library it has a suppression for.
extern "C" int dlclose(void* /*library*/) noexcept {
  return 0;
}
