// SPDX-License-Identifier: Apache-2.0
// An end that no exception handler sees: what a library does not let through (an exception in a thread or a destructor
// of its own), or cannot say (OpenMP's runtime ends the process itself).
#pragma once

namespace headscope::app {

// From now on such an end says one sentence, leaves no unfinished file and, where memory or threads were missing, has
// that exit code instead of a signal.
void PrepareForSuddenEnd();

// main is about to return: an exit from here on is nobody else's.
void EndIsExpected();

// Ends the process with that code behind main's work, without the destructors of libraries: LibTorch's deregister its
// operators one by one, a fifth of a short command's processor time, for memory that the system takes back anyway. What
// was printed is written out. Returns under a sanitizer, whose look for leaks is a part of the ordinary end.
void EndAtOnce(int code);

// Ends the process for want of memory or threads, at once, wherever it is called: removes what is unfinished, says the
// sentence and exits with that code.
[[noreturn]] void EndSuddenly(const char* sentence) noexcept;

}  // namespace headscope::app
