// SPDX-License-Identifier: Apache-2.0
#include "commands/model_attention.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "choices/file_method.h"
#include "choices/head_selection.h"
#include "choices/head_settings.h"
#include "choices/method_choice.h"
#include "commands/common_options.h"
#include "kernels/method_names.h"
#include "kernels/spec_names.h"
#include "model/model_config.h"

namespace headscope::app {
namespace {

std::string TextOf(const kernels::MethodSpec& spec, const kernels::ParameterValues& values) {
  const std::string parameters = values.ToString(spec);
  return kernels::UniqueName(spec) + (parameters.empty() ? "" : ":" + parameters);
}

// A configuration's settings, by range of lengths.
class Configuration {
 public:
  Configuration(std::string path, bool as_published, const std::string& model_dir,
                std::span<const int32_t> heads_of_layers)
      : path_(std::move(path)) {
    if (HoldsBudgets(path_))
      throw UsageError({.field = "attention-config",
                        .value = path_,
                        .problem = "it has budgets of decode methods",
                        .remedy = "give a configuration of prefill methods"});
    settings_ = ReadHeadSettings(path_, as_published);
    for (const RangeSettings& range : settings_) {
      CheckSettingsAreOfModel(range.heads, path_, model_dir, heads_of_layers);
      for (const auto& [head, asked] : range.heads) {
        const kernels::NamedMethod method = kernels::FindMethod(asked.name);
        if (method.prefill == nullptr) {
          throw UsageError({.field = "attention-config",
                            .value = path_,
                            .problem = "head " + HeadText(head) + " has " + asked.name +
                                       ", a decode method, which the heads of a running model share",
                            .remedy = "give it by --attention"});
        }
        prefill_.emplace(std::pair(&range.heads, head), sparse_model::PrefillSetting{method.prefill, asked.values});
      }
    }
  }

  const sparse_model::PrefillSetting& Of(int32_t layer, int32_t qo_head, int64_t prompt_tokens) const {
    const analysis::HeadId head{layer, qo_head};
    const auto found = prefill_.find({&SettingsFor(settings_, prompt_tokens, path_), head});
    if (found == prefill_.end())
      throw UsageError({.field = "attention-config",
                        .value = path_,
                        .problem = "it has no setting for head " + HeadText(head),
                        .remedy = "tune every head of the model"});
    return found->second;
  }

 private:
  const std::string path_;
  std::vector<RangeSettings> settings_;
  std::map<std::pair<const HeadSettings*, analysis::HeadId>, sparse_model::PrefillSetting> prefill_;
};

sparse_model::PrefillOfHead OfConfiguration(const std::string& path, bool as_published, const std::string& model_dir,
                                            std::span<const int32_t> heads_of_layers) {
  return [configuration = std::make_shared<const Configuration>(path, as_published, model_dir, heads_of_layers)](
             int32_t layer, int32_t qo_head, int64_t prompt_tokens) -> const sparse_model::PrefillSetting& {
    return configuration->Of(layer, qo_head, prompt_tokens);
  };
}

}  // namespace

void AddAttentionOptions(CLI::App* command, AttentionArguments* arguments) {
  command
      ->add_option("--attention", arguments->methods,
                   "Method that computes the model's attention: a prefill method for the prompt, a decode method for "
                   "the tokens after it; a phase without a method runs dense (dense)")
      ->type_name("METHOD[:k=v,..]");
  command
      ->add_option(
          "--attention-config", arguments->config,
          "A prefill method for each head: a configuration from `headscope tune` (where it has ranges of lengths, "
          "the prompt's decides), or MInference's best patterns")
      ->type_name("FILE");
  AddPublishedCodeFlag(command, &arguments->as_published);
}

ModelAttention ChooseAttention(const AttentionArguments& arguments, const std::string& model_dir, int32_t num_threads,
                               bool trace_lse, const Device& device) {
  if (arguments.as_published && arguments.config.empty())
    throw UsageError({.field = "minference-code",
                      .problem = "it says how MInference's best patterns are read",
                      .remedy = "give them by --attention-config"});
  if (arguments.methods.empty() && arguments.config.empty()) return {};
  sparse_model::MethodChoice choice;
  choice.num_threads = num_threads;
  choice.trace_lse = trace_lse;
  const auto put = [](const auto* method, const MethodChoice& asked, auto* slot, kernels::ParameterValues* values) {
    if (*slot != nullptr) {
      throw UsageError({.field = "attention",
                        .problem = "it names two " + std::string(NameOf(method->spec().phase)) + " methods, " +
                                   (*slot)->spec().name + " and " + method->spec().name,
                        .remedy = "give one of them"});
    }
    *slot = method;
    *values = asked.values;
  };
  std::optional<model::ModelConfig> read;  // once, and only where something is held against it
  const auto config_of_model = [&]() -> const model::ModelConfig& {
    if (!read) read = model::ReadModelConfig(model_dir);
    return *read;
  };
  const auto layers_of_model = [&] {
    KnownLayers layers{.num_layers = config_of_model().num_layers};
    for (const model::AttentionLayer& layer : config_of_model().layers)
      layers.most_kv_heads = std::max(layers.most_kv_heads, layer.num_kv_heads);
    return layers;
  };
  for (const std::string& text : arguments.methods) {
    const MethodChoice asked = ParseMethod(text, "attention");
    if (IsOfModel(asked.name)) CheckIsOfModel(asked.name, model_dir, layers_of_model());
    if (asked.prefill != nullptr) put(asked.prefill, asked, &choice.prefill, &choice.prefill_values);
    if (asked.decode != nullptr) put(asked.decode, asked, &choice.decode, &choice.decode_values);
  }
  if (!arguments.config.empty()) {
    if (choice.prefill != nullptr) {
      throw UsageError({.field = "attention",
                        .value = choice.prefill->spec().name,
                        .problem = arguments.config + " has the prompt's methods",
                        .remedy = "give one of the two"});
    }
    std::vector<int32_t> heads_of_layers;
    for (const model::AttentionLayer& layer : config_of_model().layers) heads_of_layers.push_back(layer.num_qo_heads);
    choice.prefill_of_head = OfConfiguration(arguments.config, arguments.as_published, model_dir, heads_of_layers);
  }
  // Said here, before a long prompt has passed the model.
  if (device.is_gpu() && choice.decode != nullptr && choice.decode->LeavesOutComponents()) {
    throw UsageError({.field = "attention",
                      .value = choice.decode->spec().name,
                      .problem = "it drops components of keys, which GPUs cannot do",
                      .remedy = "give --device cpu"});
  }
  const auto said = [](const auto* method, const auto& baseline, const kernels::ParameterValues& values) {
    return method != nullptr ? TextOf(method->spec(), values)
                             : TextOf(baseline.spec(), kernels::ParameterValues(baseline.spec()));
  };
  const std::string of_prompt = choice.prefill_of_head != nullptr
                                    ? "heads of " + arguments.config
                                    : said(choice.prefill, kernels::PrefillBaseline(), choice.prefill_values);
  const std::string text = of_prompt + " and " + said(choice.decode, kernels::DecodeBaseline(), choice.decode_values);
  ModelAttention attention{sparse_model::AttendByMethods(choice), text, "", {}};
  if (choice.prefill_of_head == nullptr && (choice.prefill == nullptr || choice.prefill->spec().baseline)) {
    const kernels::NamedMethod decode{.decode = choice.decode != nullptr ? choice.decode : &kernels::DecodeBaseline()};
    attention.press_name = kernels::PressName(decode, choice.decode_values);
    attention.compression_ratio = kernels::AskedCompression(decode, choice.decode_values);
  }
  return attention;
}

void TellNotes(const ModelAttention& attention) {
  if (attention.backend == nullptr) return;
  for (const std::string& note : attention.backend->Notes()) std::cerr << "note: " << note << '\n';
}

}  // namespace headscope::app
