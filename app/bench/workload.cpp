// SPDX-License-Identifier: Apache-2.0
#include "bench/workload.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "choices/file_method.h"
#include "choices/head_results.h"
#include "choices/method_choice.h"
#include "kernels/method_names.h"

namespace headscope::app::bench {

const char* Workload::source() const {
  if (saved != nullptr) return "file";
  return prefill != nullptr || decode != nullptr ? "registry" : "fixed";
}

std::vector<std::string> SplitMethods(const std::vector<std::string>& texts) {
  std::vector<std::string> methods;
  for (const std::string& text : texts) {
    bool first = true;  // a text never goes on with the method of the one before it
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::string part = text.substr(begin, end - begin);
      const size_t equals = part.find('=');
      const bool goes_on = !first && equals != std::string::npos && part.find(':') > equals;
      if (goes_on) {
        methods.back() += "," + part;
      } else {
        methods.push_back(part);
      }
      first = false;
      begin = end + 1;
    }
  }
  return methods;
}

Workload ParseWorkload(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  Workload workload;
  if (constexpr std::string_view kLatent = "latent/"; text.starts_with(kLatent)) {
    constexpr std::string_view kTokens = "latent/tokens-";
    const char* const end_of_text = text.data() + text.size();
    const auto [end, error] =
        std::from_chars(text.data() + std::min(kTokens.size(), text.size()), end_of_text, workload.latent_tokens);
    if (!text.starts_with(kTokens) || error != std::errc() || end != end_of_text || workload.latent_tokens < 1 ||
        workload.latent_tokens > 1 << 20) {
      throw UsageError({.field = "methods",
                        .value = Quoted(text),
                        .problem = "it must be latent/tokens-N, N tokens a query from 1 to 1048576"});
    }
    workload.name = text;
    return workload;
  }
  constexpr std::string_view kInFp8 = "fp8/";
  workload.fp8 = text.starts_with(kInFp8);
  const std::string set = workload.fp8 ? text.substr(kInFp8.size()) : text;
  const kernels::Status fixed = kernels::ParseFixedSet(set, &workload.fixed);
  if (fixed.ok()) {
    workload.name = text;
    return workload;
  }
  if (workload.fp8)
    throw UsageError({.field = "methods",
                      .value = text,
                      .problem = "fp8/ takes a fixed set, such as fp8/blocks-90",
                      .remedy = fixed.message()});
  if (kernels::FindMethod(name).spec() == nullptr && !IsFileMethod(name))
    throw UsageError({.field = "methods",
                      .problem = fixed.message(),
                      .remedy = "registered methods work too (`headscope methods` lists them)"});
  const MethodChoice choice = ParseMethod(text, "methods");
  workload.name = text;
  workload.prefill = choice.prefill;
  workload.decode = choice.decode;
  workload.values = choice.values;
  workload.parameters = choice.values.ToString(*choice.spec);
  return workload;
}

void CheckWorkloadIsOfModel(const Workload& workload, const TraceHeads& trace) {
  if (workload.prefill != nullptr) CheckMethodIsOfModel(workload.prefill->spec().name, trace.reader());
  if (workload.decode != nullptr) CheckMethodIsOfModel(workload.decode->spec().name, trace.reader());
}

void SetData(const std::string& text, Group* group, TakenLayers taken) {
  struct Kind {
    const char* name;
    kernels::SeededData data;
    float strength;  // where none is given
  };
  static constexpr Kind kKinds[] = {{"seeded", kernels::SeededData::kSeeded, 0},
                                    {"rising", kernels::SeededData::kRising, 5},
                                    {"peaky", kernels::SeededData::kPeaky, 9},
                                    {"local", kernels::SeededData::kLocal, 20}};
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (name == "trace" && !rest.empty()) {
    group->trace = std::make_shared<const TraceHeads>(rest, taken);
    group->trace->SetShape(&group->shape);
    return;
  }
  for (const Kind& kind : kKinds) {
    if (name != kind.name) continue;
    group->shape.data = kind.data;
    group->shape.strength = kind.strength;
    if (colon == std::string::npos) return;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), group->shape.strength);
    const bool number = error == std::errc() && end == rest.data() + rest.size();
    if (kind.data != kernels::SeededData::kSeeded && number && group->shape.strength > 0 &&
        group->shape.strength <= 1000) {
      return;
    }
  }
  throw UsageError({.field = "data",
                    .value = Quoted(text, text.size()),
                    .problem = "it must be seeded, rising, peaky or local, the latter three with a number of nats up "
                               "to 1000 if you like (peaky:30), or trace:FILE[:LAYER]"});
}

std::string IndexFileName(const Workload& workload, int32_t length) {
  std::string name = workload.name;
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
    if (!plain) c = '_';
  }
  return name + "-" + std::to_string(length) + ".h5";
}

}  // namespace headscope::app::bench
