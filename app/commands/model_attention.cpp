// SPDX-License-Identifier: Apache-2.0
#include "commands/model_attention.h"

#include <iostream>

#include "base/errors.h"
#include "choices/method_choice.h"
#include "kernels/method_names.h"
#include "kernels/spec_names.h"

namespace headscope::app {
namespace {

std::string TextOf(const kernels::MethodSpec& spec, const kernels::ParameterValues& values) {
  const std::string parameters = values.ToString(spec);
  return kernels::UniqueName(spec) + (parameters.empty() ? "" : ":" + parameters);
}

}  // namespace

void AddAttentionOption(CLI::App* command, std::vector<std::string>* texts) {
  command
      ->add_option("--attention", *texts,
                   "Method that computes the model's attention: a prefill method for the prompt, a decode method for "
                   "the tokens after it; a phase without a method runs dense (dense)")
      ->type_name("METHOD[:k=v,..]");
}

ModelAttention ChooseAttention(const std::vector<std::string>& texts, int32_t num_threads, bool trace_lse,
                               const Device& device) {
  if (texts.empty()) return {};
  sparse_model::MethodChoice choice;
  choice.num_threads = num_threads;
  choice.trace_lse = trace_lse;
  const auto put = [](const auto* method, const MethodChoice& asked, auto* slot, kernels::ParameterValues* values) {
    if (*slot != nullptr) {
      throw UsageError("--attention names two " + std::string(NameOf(method->spec().phase)) + " methods, " +
                       (*slot)->spec().name + " and " + method->spec().name + "; give one of them");
    }
    *slot = method;
    *values = asked.values;
  };
  for (const std::string& text : texts) {
    const MethodChoice asked = ParseMethod(text, "--attention");
    if (asked.prefill != nullptr) put(asked.prefill, asked, &choice.prefill, &choice.prefill_values);
    if (asked.decode != nullptr) put(asked.decode, asked, &choice.decode, &choice.decode_values);
  }
  // Said here, before a long prompt has passed the model.
  if (device.is_gpu() && choice.decode != nullptr && choice.decode->LeavesOutComponents()) {
    throw UsageError("--attention " + choice.decode->spec().name +
                     ": it drops components of keys, which GPUs cannot do; give --device cpu");
  }
  const auto said = [](const auto* method, const auto& baseline, const kernels::ParameterValues& values) {
    return method != nullptr ? TextOf(method->spec(), values)
                             : TextOf(baseline.spec(), kernels::ParameterValues(baseline.spec()));
  };
  const std::string text = said(choice.prefill, kernels::PrefillBaseline(), choice.prefill_values) + " and " +
                           said(choice.decode, kernels::DecodeBaseline(), choice.decode_values);
  ModelAttention attention{sparse_model::AttendByMethods(choice), text, "", {}};
  if (choice.prefill == nullptr || choice.prefill->spec().baseline) {
    if (choice.decode == nullptr) {
      attention.press_name = "no_press";
      attention.compression_ratio = 0;
    } else {
      const kernels::MethodSpec& spec = choice.decode->spec();
      attention.press_name = kernels::PressName(spec, choice.decode_values);
      attention.compression_ratio = kernels::AskedCompression(spec, choice.decode_values);
    }
  }
  return attention;
}

void TellNotes(const ModelAttention& attention) {
  if (attention.backend == nullptr) return;
  for (const std::string& note : attention.backend->Notes()) std::cerr << "note: " << note << '\n';
}

}  // namespace headscope::app
