// SPDX-License-Identifier: Apache-2.0
// Lines of step_guards_test.cpp: each method names a maker of steps on a GPU.
#pragma once

#define HEADSCOPE_MORE_DECODE_METHODS(CPU, BOTH) \
  BOTH(ChoosesByTheStep, EagerSteps)             \
  BOTH(ChoosesByHistory, EagerSteps)             \
  BOTH(ChoosesByOutput, EagerSteps)
