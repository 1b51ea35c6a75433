// SPDX-License-Identifier: Apache-2.0
// --attention METHOD[:k=v,..]: methods of the registry as the attention of a running model.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/device.h"
#include "sparse_model/method_attention.h"

namespace headscope::app {

void AddAttentionOption(CLI::App* command, std::vector<std::string>* texts);

struct ModelAttention {
  std::unique_ptr<sparse_model::MethodAttention> backend;  // null: the option was not given
  std::string text;                                        // "a-shape:n_local=16,.. and decode/dense"
  // The kvpress library's name of it, "no_press" without a method, empty where it is no press alone; and the ratio that
  // the press was given, if it was.
  std::string press_name = "no_press";
  std::optional<double> compression_ratio = 0;
};
// A prefill method attends the prompt, a decode method the tokens behind it; dense where there is none. trace_lse: the
// log-sum-exp that is recorded counts every key that a layer lets a row see, as traces want it. Throws UsageError: an
// unknown method or value, two of one phase.
ModelAttention ChooseAttention(const std::vector<std::string>& texts, int32_t num_threads, bool trace_lse,
                               const Device& device);
// Says on stderr what selected elsewhere than where the model ran.
void TellNotes(const ModelAttention& attention);

}  // namespace headscope::app
