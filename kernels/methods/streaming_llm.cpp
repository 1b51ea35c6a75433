// SPDX-License-Identifier: Apache-2.0
// StreamingLLM's prefill: attention sinks and a window, and MInference's dilated and strided forms of it.
//
// Sources: Efficient Streaming Language Models with Attention Sinks, section 3 (4 sinks, a cache of 1024 tokens);
// MInference 1.0, section 4 (dilated: 1k global, 8k dilated window with interval 1; strided: 1k global, 2k local, 4k
// dilated). Kept: column < n_sink; position - column < n_local; and, of the tokens position - column < n_dilated, every
// (interval + 1)-th.
//
// Choices where the sources are silent: 8k is the span of the dilated window, which includes the local one, and not the
// number of keys kept; every (interval + 1)-th is counted by the key's own place, as a cache would keep it (by
// distance, the rows of one tile would together need every key). In the dilated forms a tile of 128 rows keeps what any
// of its rows keeps.
#include <algorithm>

#include "common_parameters.h"
#include "head_groups.h"
#include "kernels/prompt_passes.h"
#include "kernels/stop_status.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec StreamingLlmSpec() {
  return {
      .name = "streaming-llm",
      .title = "StreamingLLM",
      .family = "static pattern",
      .paper =
          "Efficient Streaming Language Models with Attention Sinks, section 3; MInference 1.0, section 4 (dilated and "
          "strided forms)",
      .summary = "Keeps the first n_sink and the newest n_local tokens, and every (interval + 1)-th of n_dilated.",
      .always_keeps = "the whole pattern, the same in every head",
      .selection_cost = "nothing",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kPlace,
      .parameters =
          {
              {.name = "n_sink",
               .default_value = 4,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 1,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "first tokens that every row keeps (MInference's baseline: 1024)",
               .cost = "one more pair per row and token"},
              {.name = "n_local",
               .default_value = 1020,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "newest tokens that every row keeps, including its own (MInference: 4096; strided form: 2048; "
                       "dilated "
                       "form: 1)",
               .cost = "one more pair per row and token",
               .role = ParameterRole::kBudget,
               .scaled_floor = 32},
              {.name = "n_dilated",
               .default_value = 0,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 64,
               .unit = Unit::kTokens,
               .help = "span of the dilated window, the local one included (MInference's dilated form: 8192; strided: "
                       "4096; 0: none)",
               .cost = "1 / (interval + 1) more pairs per row and token"},
              {.name = "interval",
               .default_value = 1,
               .minimum = 1,
               .maximum = 1024,
               .unit = Unit::kTokens,
               .help = "tokens left out between two of the dilated window",
               .cost = "fewer pairs"},
              internal::ShareOfPrompt("local_share", "n_local", "newest tokens"),
          },
  };
}

class StreamingLlmMethod final : public internal::PrefillSelector, public GoesByPromptLength {
 public:
  StreamingLlmMethod() : PrefillSelector(StreamingLlmSpec()) {}
  ParameterValues AtPromptLength(ParameterValues values, int64_t num_tokens) const override {
    internal::TakeShareOfPrompt(spec(), "local_share", num_tokens, &values);
    return values;
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& given, const RunOptions& options,
                SparseIndex* index) const override {
    const ParameterValues values = AtPromptLength(given, internal::NumVisibleKeys(problem));
    const int32_t num_local = values.Integer("n_local");
    const int64_t sinks = values.Integer("n_sink"), local = num_local;
    const int64_t dilated = values.Integer("n_dilated"), stride = int64_t{values.Integer("interval")} + 1;
    if (dilated <= local) {  // exact to the element
      const ElementRule rule{MaskKind::kCausalWindow, num_local, values.Integer("n_sink")};
      *index = internal::IndexOfRule(problem, rule);
      return {};
    }
    SparseIndexBuilder::Shape shape = internal::IndexShape(problem);
    shape.batch = shape.num_qo_heads = 1;
    SparseIndexBuilder builder(shape);
    for (int64_t row = 0; row < problem.seq_q; row += shape.tile_rows) {
      if (options.stop.stop_requested()) return Stopped();
      const int64_t first = problem.first_position + row;
      const int64_t last = problem.first_position + std::min(row + shape.tile_rows, int64_t{problem.seq_q}) - 1;
      builder.AddRange(0, std::min(sinks, last + 1));
      builder.AddRange(std::max<int64_t>(0, first - local + 1), last + 1);
      const int64_t begin = std::max<int64_t>(0, first - dilated + 1);
      for (int64_t column = (begin + stride - 1) / stride * stride; column <= last; column += stride)
        builder.AddColumn(column);
      builder.FinishList();
    }
    const std::vector<int32_t> pattern_of_head(static_cast<size_t>(problem.num_qo_heads), 0);
    *index = internal::SharePatterns(builder.Build(), problem, pattern_of_head);
    return {};
  }
};

}  // namespace

const PrefillMethod& StreamingLlm() {
  static const StreamingLlmMethod method;
  return method;
}

}  // namespace headscope::kernels
