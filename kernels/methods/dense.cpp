// Everything causal is kept: the baseline of every comparison.
#include "checks.h"
#include "head_groups.h"
#include "registry.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec(Phase phase) {
  MethodSpec spec;
  spec.name = "dense";
  spec.title = "Dense attention";
  spec.family = "dense";
  spec.paper = "Attention Is All You Need, section 3.2.1";
  spec.summary = "Keeps every earlier token: the baseline that all others are compared with.";
  spec.phase = phase;
  return spec;
}

class DensePrefillMethod final : public PrefillMethod {
 public:
  const MethodSpec& spec() const override { return spec_; }

  Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                SparseIndex* index) const override {
    const Status status = internal::CheckSelectorInput(problem, spec_, values, /*reads_v=*/false);
    if (!status.ok()) return status;
    SparseIndexBuilder::Shape shape = internal::IndexShape(problem);
    shape.batch = 1;
    shape.num_qo_heads = 1;
    SparseIndexBuilder builder(shape);
    for (int32_t row = 0; row < problem.seq_q; row += shape.tile_rows) {
      builder.AddRange(0, problem.seq_k);
      builder.FinishList();
    }
    const std::vector<int32_t> pattern_of_head(static_cast<size_t>(problem.num_qo_heads), 0);
    *index = internal::SharePatterns(builder.Build(), problem, pattern_of_head);
    return {};
  }

 private:
  MethodSpec spec_ = MakeSpec(Phase::kPrefill);
};

class DenseDecodeMethod final : public DecodeMethod {
 public:
  const MethodSpec& spec() const override { return spec_; }

  Status Select(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                DecodeSelection* selection) const override {
    const Status status = internal::CheckSelectorInput(problem, spec_, values, /*reads_v=*/false);
    if (!status.ok()) return status;
    *selection = internal::SelectSameTokens(problem, {{0, problem.seq_k}});
    return {};
  }

 private:
  MethodSpec spec_ = MakeSpec(Phase::kDecode);
};

}  // namespace

const PrefillMethod& DensePrefill() {
  static const DensePrefillMethod method;
  return method;
}

const DecodeMethod& DenseDecode() {
  static const DenseDecodeMethod method;
  return method;
}

}  // namespace headscope::kernels
