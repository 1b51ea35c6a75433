// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_list.h"

namespace headscope::eval {
namespace {

class ProseTask : public Task {
 public:
  std::string_view name() const override { return "prose"; }
  std::string_view help() const override { return "plain text without a question"; }
  bool asks() const override { return false; }
  Draft Make(const TaskText&, Random*, size_t) const override { return {}; }
};

}  // namespace

const Task& Prose() {
  static const ProseTask task;
  return task;
}

}  // namespace headscope::eval
