// SPDX-License-Identifier: Apache-2.0
// The list of tasks: a new one is a file in this folder that defines a function of this shape, and one line here.
#pragma once

#include "task.h"

// What a build of its own adds (tests/extension): nothing here.
#ifndef HEADSCOPE_MORE_TASKS
#define HEADSCOPE_MORE_TASKS(TASK)
#endif

#define HEADSCOPE_TASKS(TASK) \
  TASK(PassKey)               \
  TASK(KeyValue)              \
  TASK(Variables)             \
  TASK(Repeat)                \
  TASK(ManyValues)            \
  TASK(ManyKeys)              \
  TASK(FrequentWord)          \
  TASK(OneKey)                \
  TASK(OneOfManyKeys)         \
  TASK(CommonWords)           \
  TASK(RepeatText)            \
  TASK(Prose)                 \
  HEADSCOPE_MORE_TASKS(TASK)

namespace headscope::eval {

#define HEADSCOPE_DECLARE(name) const Task& name();
HEADSCOPE_TASKS(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::eval
