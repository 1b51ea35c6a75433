// A head of a part that was cut out of a trace: its probabilities are those among the tokens of the part.
#include <gtest/gtest.h>

#include <vector>

#include "analysis/head_tensors.h"
#include "data/trace_export.h"
#include "data/trace_reader.h"
#include "data/trace_writer.h"
#include "synthetic_heads.h"
#include "synthetic_trace.h"

namespace headscope::analysis {
namespace {

// The values of synthetic_trace.h, every second query row, no key before token 101.
TEST(CutTrace, ProbabilitiesOfEveryRowSumToOneOverThePart) {
  const data::testing::ScratchFolder folder;
  data::testing::WriteTrace(folder.File("whole.h5"), data::testing::SmallLayout(data::Encoding::kFloat32, 4000), 700,
                            100);
  const data::TraceReader whole(folder.File("whole.h5"));
  ASSERT_TRUE(data::ExportTrace(whole, {.first_token = 101, .end_token = 650}, folder.File("cut.h5")));
  const data::TraceReader cut(folder.File("cut.h5"));
  for (const HeadId id : RecordedHeads(cut)) {
    const HeadTensorsPtr head = LoadHead(cut, id);
    ASSERT_GT(head->num_rows, 200);
    const std::vector<double> p = testing::AllProbabilities(*head);  // exp(score - lse): not normalised by itself
    for (int64_t row = 0; row < head->num_rows; ++row) {
      double sum = 0;
      for (int64_t column = 0; column < head->num_tokens; ++column) {
        sum += p[static_cast<size_t>(row * head->num_tokens + column)];
      }
      ASSERT_NEAR(sum, 1, 1e-4) << "head " << id.layer << ":" << id.head << ", row " << row;
    }
  }
}

TEST(CutTrace, AWholeTraceKeepsTheRecordedLogSumExp) {
  const data::testing::ScratchFolder folder;
  data::testing::WriteTrace(folder.File("whole.h5"), data::testing::SmallLayout(data::Encoding::kFloat32, 400), 300,
                            100);
  const data::TraceReader whole(folder.File("whole.h5"));
  const HeadId id = RecordedHeads(whole).front();
  const HeadTensorsPtr head = LoadHead(whole, id);
  ASSERT_GT(head->num_rows, 100);
  for (int64_t row = 0; row < head->num_rows; ++row) {
    EXPECT_EQ(head->lse[static_cast<size_t>(row)],
              data::testing::LseValue(id.layer, id.head, head->row_positions[static_cast<size_t>(row)]));
  }
}

}  // namespace
}  // namespace headscope::analysis
