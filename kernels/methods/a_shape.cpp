// MInference A-shape (the prefill form of StreamingLLM): the first tokens and a sliding window, the same for every
// head.
//
// Source: MInference 1.0, section 3.2 and Table 6. Kept: column < n_sink or position - column < n_local. The window
// counts the diagonal (the paper leaves that open), so a row keeps min(position + 1, n_sink + n_local) tokens.
#include "checks.h"
#include "head_groups.h"
#include "registry.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec() {
  MethodSpec spec;
  spec.name = "a-shape";
  spec.title = "MInference A-shape";
  spec.family = "static pattern";
  spec.paper =
      "MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via Dynamic Sparse Attention, section 3.2";
  spec.summary = "Keeps the first n_sink tokens and the newest n_local tokens of every row.";
  spec.phase = Phase::kPrefill;
  spec.parameters = {
      {"n_sink", ParameterType::kInteger, 1024, 0, 1 << 20, 64, true, "tokens", "first tokens that every row keeps",
       "work per row grows by one pair a token"},
      {"n_local", ParameterType::kInteger, 4096, 1, 1 << 20, 64, true, "tokens",
       "newest tokens that every row keeps, its own included", "work per row grows by one pair a token"},
  };
  return spec;
}

class AShapeMethod final : public PrefillMethod {
 public:
  const MethodSpec& spec() const override { return spec_; }

  Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                SparseIndex* index) const override {
    const Status status = internal::CheckSelectorInput(problem, spec_, values, /*reads_v=*/false);
    if (!status.ok()) return status;
    const ElementRule rule{MaskKind::kCausalWindow, values.Integer("n_local"), values.Integer("n_sink")};
    SparseIndexBuilder::Shape shape = internal::IndexShape(problem, rule);
    shape.batch = 1;
    shape.num_qo_heads = 1;
    SparseIndexBuilder builder(shape);
    for (int32_t row = 0; row < problem.seq_q; row += shape.tile_rows) {
      builder.AddRange(0, problem.seq_k);  // the element rule is the whole method
      builder.FinishList();
    }
    const std::vector<int32_t> pattern_of_head(static_cast<size_t>(problem.num_qo_heads), 0);
    *index = internal::SharePatterns(builder.Build(), problem, pattern_of_head);
    return {};
  }

 private:
  MethodSpec spec_ = MakeSpec();
};

}  // namespace

const PrefillMethod& AShape() {
  static const AShapeMethod method;
  return method;
}

}  // namespace headscope::kernels
