// SPDX-License-Identifier: Apache-2.0
// A prefill method as an extension adds it: the newest tokens and every n-th one before them (the strided pattern of
// Child et al., "Generating Long Sequences with Sparse Transformers", 2019, section 4.2).
#include <algorithm>

#include "kernels/stop_status.h"
#include "methods/head_groups.h"
#include "methods/registry.h"
#include "methods/selector.h"

namespace headscope::kernels {
namespace {

class EveryNthMethod final : public internal::PrefillSelector {
 public:
  EveryNthMethod()
      : PrefillSelector({
            .name = "every-nth",
            .title = "Every n-th token",
            .family = "static pattern",
            .paper = "Generating Long Sequences with Sparse Transformers, section 4.2",
            .summary = "Keeps the newest n_local tokens and every stride-th token before them.",
            .parameters =
                {
                    {.name = "n_local",
                     .default_value = 256,
                     .minimum = 1,
                     .maximum = 1 << 20,
                     .step = 16,
                     .logarithmic = true,
                     .unit = Unit::kTokens,
                     .help = "newest tokens that every row keeps, including its own",
                     .cost = "one more pair per row and token",
                     .role = ParameterRole::kBudget,
                     .scaled_floor = 16},
                    {.name = "stride",
                     .default_value = 64,
                     .minimum = 1,
                     .maximum = 1 << 20,
                     .unit = Unit::kTokens,
                     .help = "distance between the older tokens that are kept",
                     .cost = "fewer pairs"},
                },
        }) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const int64_t local = values.Integer("n_local");
    const int64_t stride = values.Integer("stride");
    SparseIndexBuilder::Shape shape = internal::IndexShape(problem);
    const int64_t tile = shape.tile_rows;
    shape.batch = 1;
    shape.num_qo_heads = 1;
    SparseIndexBuilder builder(shape);
    for (int64_t row = 0; row < problem.seq_q; row += tile) {
      if (options.stop.stop_requested()) return Stopped();
      const int64_t first = problem.first_position + row;
      const int64_t last = std::min(first + tile, int64_t{problem.first_position} + problem.seq_q) - 1;
      // A tile keeps what its first row's window reaches back to.
      const int64_t begin = std::max<int64_t>(0, first - local + 1);
      for (int64_t column = 0; column < begin; column += stride) builder.AddColumn(column);
      builder.AddRange(begin, last + 1);
      builder.FinishList();
    }
    const std::vector<int32_t> pattern_of_head(static_cast<size_t>(problem.num_qo_heads), 0);
    *index = internal::SharePatterns(builder.Build(), problem, pattern_of_head);
    return {};
  }
};

}  // namespace

const PrefillMethod& EveryNth() {
  static const EveryNthMethod method;
  return method;
}

}  // namespace headscope::kernels
