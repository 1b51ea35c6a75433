// How the threads of a model's operators wait for work.
#pragma once

namespace headscope::app {

// LibTorch's CPU operators run on OpenMP threads, and a thread without work spins for about a millisecond before it
// sleeps. Where every thread has a core of its own that saves microseconds; where cores are shared it takes time from
// whoever computes. So threads sleep at once in a command that runs a model (argv[1]), unless the user has chosen by
// OMP_WAIT_POLICY or GOMP_SPINCOUNT. Call it first in main(): it changes the environment, from which the OpenMP library
// takes its policy when it is loaded, and that is when LibTorch is (capture/model/torch_library.h).
void LetThreadsSleepWhileTheyWait(const char* const* argv);

}  // namespace headscope::app
