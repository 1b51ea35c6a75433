// SPDX-License-Identifier: Apache-2.0
// How the threads of a model's operators wait for work.
#pragma once

namespace headscope::app {

// LibTorch's CPU operators run on OpenMP threads, and a thread without work spins for about a millisecond before it
// sleeps. Where every thread has a core of its own that saves microseconds; where cores are shared it takes time from
// whoever computes. The OpenMP library reads its policy once, when it is loaded, and where Qt brings it along that is
// before main(): so a command that runs LibTorch (argv[1]) starts its program anew with the policy set, which costs
// hundredths of a second, as LibTorch is not loaded yet. Returns when nothing is to be done: another command, or a user
// who has chosen by OMP_WAIT_POLICY or GOMP_SPINCOUNT.
void LetThreadsSleepWhileTheyWait(char** argv);

}  // namespace headscope::app
