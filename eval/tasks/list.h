// The list of tasks: a new one is a file in this folder that defines a function of this shape, and one line here.
#pragma once

#include "task.h"

#define HEADSCOPE_TASKS(TASK) \
  TASK(PassKey)               \
  TASK(KeyValue)              \
  TASK(Variables)             \
  TASK(Repeat)                \
  TASK(Prose)

namespace headscope::eval {

#define HEADSCOPE_DECLARE(name) const Task& name();
HEADSCOPE_TASKS(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::eval
