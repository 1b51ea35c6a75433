// SPDX-License-Identifier: Apache-2.0
// How the threads of a model's operators wait for work.
#pragma once

namespace headscope::app {

// Whether the command line (argv[1]) is of a command that runs LibTorch's operators from its start.
bool RunsLibTorch(char** argv);

// LibTorch's CPU operators run on OpenMP threads, and a thread without work spins before it sleeps: for milliseconds.
// Where every thread has a core of its own that saves microseconds; where cores are shared it takes time from whoever
// computes, and a prompt took seven times the processor time. The OpenMP library reads its policy once, when it is
// loaded, and where Qt brings it along that is before main(): so the program begins anew with the policy set, which
// costs hundredths of a second, as LibTorch is not loaded yet. Returns when nothing is to be done: it has begun anew,
// or the user has chosen by OMP_WAIT_POLICY or GOMP_SPINCOUNT.
void LetThreadsSleepWhileTheyWait(char** argv);

}  // namespace headscope::app
