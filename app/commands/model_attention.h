// SPDX-License-Identifier: Apache-2.0
// --attention METHOD[:k=v,..] and --attention-config FILE: methods of the registry as the attention of a running model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/device.h"
#include "sparse_model/method_attention.h"

namespace CLI {
class App;
}

namespace headscope::app {

struct AttentionArguments {
  std::vector<std::string> methods;
  std::string config;         // each head's prefill method; empty: none
  bool as_published = false;  // of MInference's patterns: what its code adds
};
void AddAttentionOptions(CLI::App* command, AttentionArguments* arguments);

struct ModelAttention {
  std::unique_ptr<sparse_model::MethodAttention> backend;  // null: the option was not given
  std::string text;                                        // "a-shape:n_local=16,.. and dense", "heads of FILE and .."
  // The kvpress library's name of it, "no_press" without a method, empty where it is no press alone; and the ratio that
  // the press was given, if it was.
  std::string press_name = "no_press";
  std::optional<double> compression_ratio = 0;
};
// A prefill method attends the prompt, a decode method the tokens behind it; dense where there is none. trace_lse: the
// log-sum-exp that is recorded counts every key that a layer lets a row see, as traces want it. Throws UsageError: an
// unknown method or value, two of one phase; BadInputError as ReadHeadSettings, and where a file is of another model
// than the one in model_dir. A head or a prompt's length that the configuration has no setting for is refused
// (UsageError) when it comes up.
ModelAttention ChooseAttention(const AttentionArguments& arguments, const std::string& model_dir, int32_t num_threads,
                               bool trace_lse, const Device& device);
// Says on stderr what selected elsewhere than where the model ran.
void TellNotes(const ModelAttention& attention);

}  // namespace headscope::app
