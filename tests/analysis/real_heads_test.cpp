// SPDX-License-Identifier: Apache-2.0
// What must hold of every method, whatever it chooses, on heads that the shipped model recorded: random problems have
// neither their sinks nor their sharp rows. The same is asked of random heads, in one table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/measured_heads.h"
#include "analysis/search.h"
#include "compare/model_window.h"
#include "data/trace_reader.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/decode_method.h"
#include "kernels/method_names.h"
#include "search/budget_grid.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterRole;
using kernels::ParameterSpec;
using kernels::ParameterValues;
using kernels::Status;

struct PropertyHead {
  const char* name;
  HeadId recorded;  // of the shipped trace; layer -1: a random head
};

// A block head, one of sinks and a window, a retrieval head, and none of them.
constexpr PropertyHead kPropertyHeads[] = {
    {"block", {0, 4}}, {"sinks", {5, 3}}, {"retrieval", {8, 4}}, {"random", {-1, 0}}};

class MethodProperties : public ::testing::TestWithParam<PropertyHead> {
 protected:
  MethodProperties() {
    if (GetParam().recorded.layer < 0) {
      head_ = testing::RandomHead({.num_tokens = 900, .sharpness = 3}, 91);
    } else {
      trace_ = std::make_unique<data::TraceReader>(HEADSCOPE_SHIPPED_TRACE_PATH);
      head_ = LoadHead(*trace_, GetParam().recorded);
    }
  }

  MeasuredHeadsPtr Measured(const kernels::DecodeMethod& method, const ParameterValues& values) const {
    const MeasuredHeadsPtr alone = AloneHead(head_);
    if (trace_ == nullptr) return alone;
    return WithLayersBelow(*trace_, alone, {{kernels::UniqueName(method.spec()), values}});
  }

  // Of a prefill method's index.
  std::vector<float> Attend(const HeadTensors& head, const kernels::SparseIndex& index) const {
    std::vector<float> o(static_cast<size_t>(head.num_rows * head.ValueDim()));
    const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o.data(), 1, head.num_rows, head.ValueDim()),
                                          nullptr};
    const Status status = kernels::AttendCpu(head.Problem(), index.View(), output, {2});
    EXPECT_TRUE(status.ok()) << status.message();
    return o;
  }

  std::unique_ptr<data::TraceReader> trace_;
  HeadTensorsPtr head_;
};

// All other budgets at their least, so that this one decides.
ParameterValues LeastBudgets(const kernels::MethodSpec& spec) {
  ParameterValues values(spec);
  for (const ParameterSpec* other : Budgets(spec)) EXPECT_EQ(values.Set(spec, other->name, other->minimum), "");
  return values;
}

// The largest magnitude among the values that a row attends, of every row.
std::vector<float> LargestValues(const HeadTensors& head) {
  const auto dim = static_cast<size_t>(head.ValueDim());
  std::vector<float> of_token;
  for (size_t token = 0; token < static_cast<size_t>(head.num_tokens); ++token) {
    float largest = 0;
    for (size_t i = 0; i < dim; ++i) largest = std::max(largest, std::fabs(head.v[token * dim + i]));
    of_token.push_back(largest);
  }
  std::vector<float> of_row;
  for (int64_t row = 0; row < head.num_rows; ++row) {
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    of_row.push_back(*std::max_element(of_token.begin() + attended.begin, of_token.begin() + attended.end));
  }
  return of_row;
}

// A row's output is a mean of values: leaving out mass 1 - c moves it by no more than 2 (1 - c) of the largest value
// that it attends. The bound says something of rows that lose some of their mass and not much of it.
TEST_P(MethodProperties, OutputsAreOffByNoMoreThanTheMassThatIsLeftOut) {
  const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head_, 2, {});
  const int64_t dim = head_->ValueDim();
  const std::vector<float> largest = LargestValues(*head_);
  HeadTensors constant = *head_;
  for (size_t i = 0; i < constant.v.size(); ++i)
    constant.v[i] = static_cast<float>(i % static_cast<size_t>(dim)) - 3.5f;
  kernels::SparseIndex everything;
  const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
  ASSERT_TRUE(SelectOnHead(*head_, dense, ParameterValues(dense.spec()), {2}, &everything).ok());
  const std::vector<float> reference = Attend(*head_, everything);
  int methods = 0, telling = 0;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    SCOPED_TRACE(method->spec().name);
    // At the defaults, and with next to nothing.
    for (const ParameterValues& values : {ParameterValues(method->spec()), LeastBudgets(method->spec())}) {
      MaskPreview preview;
      const Status made = PreviewMask(*mass, *method, values, 2, {}, &preview);
      ASSERT_TRUE(made.ok()) << made.message();
      const std::vector<float> o = Attend(*head_, *preview.index), same = Attend(constant, *preview.index);
      for (int64_t row = 0; row < head_->num_rows; ++row) {
        const float kept = preview.kept_mass[static_cast<size_t>(row)];
        ASSERT_GE(kept, 0) << "row " << row;
        ASSERT_LE(kept, 1 + 1e-4f) << "row " << row;
        telling += kept > 0.9f && kept < 0.999f ? 1 : 0;
        const float bound = 2 * largest[static_cast<size_t>(row)] * (std::max(1 - kept, 0.0f) + 1e-4f);
        for (int64_t i = 0; i < dim; ++i) {
          const auto at = static_cast<size_t>(row * dim + i);
          ASSERT_LE(std::fabs(o[at] - reference[at]), bound) << "row " << row << ", which keeps " << kept;
          if (kept > 1e-3f) {
            ASSERT_NEAR(same[at], constant.v[static_cast<size_t>(i)], 2e-4) << "of equal values, row " << row;
          }
        }
      }
    }
    ++methods;
  }
  EXPECT_GE(methods, 21);
  EXPECT_GT(telling, 1000) << "most rows keep everything, or too little for the bound to say anything";
}

TEST_P(MethodProperties, NoRowLosesMassWhenABudgetOfAPrefillMethodRises) {
  const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head_, 2, {});
  int budgets = 0;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    for (const ParameterSpec* budget : Budgets(method->spec())) {
      SCOPED_TRACE(method->spec().name + " " + budget->name);
      ++budgets;
      ParameterValues values = LeastBudgets(method->spec());
      const BudgetGrid grid(*budget, head_->num_tokens);
      std::vector<float> before;
      for (int64_t place = 0; place < grid.size(); place = std::max(place + 1, std::min(4 * place, grid.size() - 1))) {
        ASSERT_EQ(values.Set(method->spec(), budget->name, grid.Value(place)), "");
        MaskPreview preview;
        ASSERT_TRUE(PreviewMask(*mass, *method, values, 2, {}, &preview).ok());
        for (size_t row = 0; row < before.size(); ++row)
          ASSERT_GE(preview.kept_mass[row], before[row] - 1e-5f) << grid.Value(place) << ", row " << row;
        before = preview.kept_mass;
      }
      EXPECT_NEAR(*std::ranges::min_element(before), 1, 1e-4) << "the largest keeps everything";
    }
  }
  EXPECT_GE(budgets, 20);
}

TEST_P(MethodProperties, NoStepLosesMassWhenABudgetOfADecodeMethodRises) {
  constexpr int32_t kSteps = 4;
  int budgets = 0;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    const kernels::MethodSpec& spec = method->spec();
    if (!CheckSearchable(spec).ok() || Budgets(spec).front()->role == kernels::ParameterRole::kAmount) continue;
    if (method->Inputs(ParameterValues(spec)).q_pre_rope) continue;  // neither head has them
    const MeasuredHeadsPtr measured = Measured(*method, ParameterValues(spec));
    if (!method->LowerLayers(ParameterValues(spec), head_->id.layer).empty() && trace_ == nullptr) continue;
    SCOPED_TRACE(spec.name);
    ++budgets;
    const ParameterSpec& budget = *Budgets(spec).front();
    const BudgetGrid grid(budget, head_->num_tokens);
    std::vector<float> before;
    for (int64_t place = 0; place < grid.size(); place = std::max(place + 1, std::min(2 * place, grid.size() - 1))) {
      ParameterValues values(spec);
      ASSERT_EQ(values.Set(spec, budget.name, grid.Value(place)), "");
      DecodePreview preview;
      const Status made = PreviewDecode(*measured, head_->id, *method, values, kSteps, 2, {}, &preview);
      // A budget that does not hold what is kept in any case is refused, and larger ones are not.
      if (before.empty() && made.code() == kernels::StatusCode::kInvalidArgument) continue;
      ASSERT_TRUE(made.ok()) << made.message();
      for (size_t step = 0; step < preview.kept_mass.size(); ++step) {
        ASSERT_GE(preview.kept_mass[step], before.empty() ? 0 : before[step] - 1e-5f) << grid.Value(place);
        ASSERT_LE(preview.kept_mass[step], 1 + 1e-4f);
      }
      before = preview.kept_mass;
    }
    ASSERT_EQ(before.size(), static_cast<size_t>(kSteps));
  }
  EXPECT_GE(budgets, 13);
}

INSTANTIATE_TEST_SUITE_P(Heads, MethodProperties, ::testing::ValuesIn(kPropertyHeads),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace headscope::analysis
