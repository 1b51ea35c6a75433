// SPDX-License-Identifier: Apache-2.0
// selection_beside_attention TRACE.h5 LAYER DTYPE ROUNDS [METHOD..]: what every prefill method, at its defaults or as
// NAME:k=v,.. says, takes to select for the heads of a layer beside what it takes to attend to what it selected. One
// thread, by the processor's clock, which others' work on the machine lengthens little; the least of so many rounds.
// DTYPE: fp32, or bf16, to which the recorded numbers are rounded.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "analysis/measured_heads.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "data/trace_reader.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/index_window.h"
#include "kernels/method.h"
#include "kernels/narrow_floats.h"

namespace headscope::analysis {
namespace {

double ProcessorSecondsOf(const std::function<void()>& work) {
  const std::clock_t clock = std::clock();
  work();
  return static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC;
}

std::vector<uint16_t> RoundedToBFloat16(std::span<const float> values) {
  std::vector<uint16_t> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), &kernels::RoundToBFloat16);
  return rounded;
}

int32_t WholeNumber(const std::string& field, const std::string& text, int32_t least) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least) return number;
  throw UsageError({.field = field,
                    .value = text,
                    .problem = "it is not a whole number",
                    .remedy = "give one from " + std::to_string(least) + " on"});
}

struct Asked {
  const kernels::PrefillMethod* method;
  kernels::ParameterValues values;
  double select = std::numeric_limits<double>::infinity(), attend = select, kept = 0;
};

std::vector<Asked> Methods(int count, char** texts) {
  std::vector<Asked> asked;
  if (count == 0) {
    for (const kernels::PrefillMethod* method : kernels::PrefillMethods())
      asked.push_back({method, kernels::ParameterValues(method->spec())});
  }
  for (int i = 0; i < count; ++i) {
    const std::string text = texts[i], name = text.substr(0, text.find(':'));
    const kernels::PrefillMethod* const method = kernels::FindPrefillMethod(name);
    if (method == nullptr)
      throw UsageError({.field = "method",
                        .value = name,
                        .problem = "there is none of that name",
                        .remedy = "take one of headscope methods"});
    asked.push_back({method, kernels::ParameterValues(method->spec())});
    if (name == text) continue;
    const std::string said = asked.back().values.Parse(method->spec(), text.substr(name.size() + 1));
    if (!said.empty()) throw UsageError({.field = "method", .value = text, .problem = said, .remedy = "correct it"});
  }
  return asked;
}

void TimeMethods(const std::string& path, int32_t layer, bool bf16, int rounds, std::vector<Asked> methods) {
  const data::TraceReader trace(path);
  const MeasuredHeadsPtr heads = LoadLayer(trace, {layer, 0});
  kernels::AttentionProblem problem = heads->Problem();
  // As comparisons cut it: a method chooses without knowing of a model's window.
  const int32_t window = heads->window > 0 && heads->window < problem.seq_k ? heads->window : 0;
  const std::vector<uint16_t> q = RoundedToBFloat16(heads->q), k = RoundedToBFloat16(heads->k),
                              v = RoundedToBFloat16(heads->v);
  if (bf16) {
    problem.dtype = kernels::DType::kBFloat16;
    problem.q.data = q.data();
    problem.k.data = k.data();
    problem.v.data = v.data();
  }
  std::vector<float> o(heads->OutputSize());
  const kernels::AttentionOutput output{
      kernels::ContiguousTensor<void>(o.data(), heads->num_qo_heads, heads->num_rows, heads->ValueDim()), nullptr};
  const kernels::RunOptions one_thread{.num_threads = 1};
  for (int round = 0; round < rounds; ++round) {
    for (Asked& asked : methods) {
      kernels::SparseIndex index;
      const auto select = [&] {
        CheckStatus(asked.method->Select(problem, asked.values, one_thread, &index), path);
        if (window > 0) index = kernels::CutToWindow(index.View(), window);
      };
      const auto attend = [&] { CheckStatus(kernels::AttendCpu(problem, index.View(), output, one_thread), path); };
      asked.select = std::min(asked.select, ProcessorSecondsOf(select));
      asked.attend = std::min(asked.attend, ProcessorSecondsOf(attend));
      asked.kept = CountPairs(index.View()).Density();
    }
  }
  std::printf("%s, %lld tokens, %s, least of %d rounds, one thread's processor time\n", heads->Name().c_str(),
              static_cast<long long>(heads->num_tokens), bf16 ? "bf16" : "fp32", rounds);
  std::printf("%-24s %8s %10s %10s %12s\n", "method", "kept %", "select ms", "attend ms", "by attend, %");
  for (const Asked& asked : methods) {
    std::printf("%-24s %8.1f %10.1f %10.1f %12.1f\n", asked.method->spec().name.c_str(), 100 * asked.kept,
                1e3 * asked.select, 1e3 * asked.attend, 100 * asked.select / asked.attend);
  }
}

}  // namespace
}  // namespace headscope::analysis

int main(int argc, char** argv) {
  const std::string dtype = argc > 3 ? argv[3] : "";
  if (argc < 5 || (dtype != "fp32" && dtype != "bf16")) {
    std::fprintf(stderr, "selection_beside_attention TRACE.h5 LAYER fp32|bf16 ROUNDS [METHOD..]\n");
    return 2;
  }
  try {
    using headscope::analysis::WholeNumber;
    headscope::analysis::TimeMethods(argv[1], WholeNumber("layer", argv[2], 0), dtype == "bf16",
                                     WholeNumber("rounds", argv[4], 1),
                                     headscope::analysis::Methods(argc - 5, argv + 5));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "selection_beside_attention: %s\n", error.what());
    return 1;
  }
  return 0;
}
