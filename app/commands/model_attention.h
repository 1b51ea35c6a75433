// SPDX-License-Identifier: Apache-2.0
// --attention METHOD[:k=v,..]: methods of the registry as the attention of a running model.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "sparse_model/method_attention.h"

namespace headscope::app {

void AddAttentionOption(CLI::App* command, std::vector<std::string>* texts);

struct ModelAttention {
  std::unique_ptr<sparse_model::MethodAttention> backend;  // null: the option was not given
  std::string text;                                        // "a-shape:n_local=16,.. and decode/dense"
};
// A prefill method attends in passes of several tokens, a decode method in those of one; dense where there is none.
// trace_lse: the log-sum-exp that is recorded counts every key that a layer lets a row see, as traces want it. Throws
// UsageError: an unknown method or value, two of one phase, a device other than the CPU.
ModelAttention ChooseAttention(const std::vector<std::string>& texts, const Device& device, int32_t num_threads,
                               bool trace_lse);

}  // namespace headscope::app
