// SPDX-License-Identifier: Apache-2.0
// A head of a part that was cut out of a trace: its probabilities are those of the whole trace, so that its rows sum to
// less than 1, and the rest is told. (The log-sum-exp was once computed anew over the part's keys, in silence.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "analysis/compare.h"
#include "analysis/head_tensors.h"
#include "analysis/report.h"
#include "analysis/statistics.h"
#include "data/trace_export.h"
#include "data/trace_reader.h"
#include "head/head_checks.h"
#include "head_trace.h"
#include "report/head_map.h"
#include "report/map_values.h"
#include "synthetic_heads.h"
#include "synthetic_trace.h"

namespace headscope::analysis {
namespace {

using testing::RandomHead;

class CutTrace : public ::testing::Test {
 protected:
  // Tokens [first, end) of a trace of `head`.
  HeadTensorsPtr Cut(const HeadTensors& head, int64_t first, int64_t end) {
    testing::WriteHeadTrace(head, folder_.File("whole.h5"));
    const data::TraceReader whole(folder_.File("whole.h5"));
    std::filesystem::remove(folder_.File("cut.h5"));
    data::ExportTrace(whole, {.first_token = first, .end_token = end}, {}, folder_.File("cut.h5"));
    const data::TraceReader cut(folder_.File("cut.h5"));
    return LoadHead(cut, head.id);
  }
  const data::testing::ScratchFolder folder_;
};

// What the whole head's row, of a trace with a row for every token, has on tokens [first, first + num_tokens).
double MassOfPart(const HeadTensors& whole, const std::vector<double>& p, int64_t row, int64_t first,
                  int64_t num_tokens) {
  const auto begin = p.begin() + row * whole.num_tokens + first;
  return std::accumulate(begin, begin + num_tokens, 0.0);
}

TEST_F(CutTrace, RowsHaveTheMassThatTheWholeTraceGivesThem) {
  for (const int32_t window : {0, 120}) {
    const HeadTensorsPtr whole = RandomHead({.num_tokens = 500, .head_dim = 24, .window = window}, 31);
    constexpr int64_t kFirst = 150;
    const HeadTensorsPtr cut = Cut(*whole, kFirst, 450);
    ASSERT_EQ(cut->num_rows, 300);
    EXPECT_EQ(cut->first_token, kFirst);
    const std::vector<double> whole_p = testing::AllProbabilities(*whole), cut_p = testing::AllProbabilities(*cut);
    const std::vector<double> in_trace = MassInTrace(*cut, 2);
    double outside = 0, least = 1;
    for (int64_t row = 0; row < cut->num_rows; ++row) {
      const auto slot = static_cast<size_t>(row);
      EXPECT_EQ(cut->lse[slot], whole->lse[static_cast<size_t>(kFirst + row)]);
      const double expected = MassOfPart(*whole, whole_p, kFirst + row, kFirst, cut->num_tokens);
      ASSERT_NEAR(MassOfPart(*cut, cut_p, row, 0, cut->num_tokens), expected, 1e-9);
      ASSERT_NEAR(in_trace[slot], expected, 1e-5) << "row " << row << ", window " << window;
      if (window > 0 && row + 1 >= window) {
        ASSERT_EQ(in_trace[slot], 1) << "it sees all its keys";
      }
      outside += (1 - in_trace[slot]) / static_cast<double>(cut->num_rows);
      least = std::min(least, in_trace[slot]);
    }
    EXPECT_LT(least, 0.5);
    const HeadStatistics statistics = ComputeStatistics(*cut, {});
    EXPECT_NEAR(statistics.outside_mass, outside, 1e-5);
    EXPECT_GT(statistics.outside_mass, 0.05);
    EXPECT_NEAR(std::accumulate(statistics.column_profile.begin(), statistics.column_profile.end(), 0.0), 1 - outside,
                1e-5);
    EXPECT_EQ(statistics.sink_mass, 0) << "the sinks were cut off";
    EXPECT_EQ(statistics.head_class, HeadClass::kUnknown) << statistics.class_reason;
    EXPECT_THAT(statistics.class_reason, ::testing::HasSubstr("does not hold"));
    EXPECT_EQ(ComputeStatistics(*whole, {}).outside_mass, 0);
  }
}

// README: heads of any size are analysed and drawn. A cut one of a head_dim that no executor takes was refused.
// Positions count from the beginning of the whole prompt, and so do the chunks.
TEST(Chunks, ARowSeesItsOwnChunkAndMethodsRefuseIt) {
  HeadFrame frame;
  frame.chunk = 8;
  frame.first_token = 20;
  frame.num_tokens = 12;
  frame.row_positions = {0, 3, 4, 11};  // 20, 23, 24 and 31 in the prompt
  frame.num_rows = 4;
  EXPECT_EQ(frame.AttendedColumns(0).begin, 0);
  EXPECT_EQ(frame.AttendedColumns(1).begin, 0);
  EXPECT_EQ(frame.AttendedColumns(1).end, 4);
  EXPECT_FALSE(frame.SeesAllItsKeys(1)) << "its chunk begins at 16";
  EXPECT_EQ(frame.AttendedColumns(2).begin, 4);
  EXPECT_TRUE(frame.SeesAllItsKeys(2));
  EXPECT_EQ(frame.AttendedColumns(3).begin, 4);
  EXPECT_EQ(frame.AttendedColumns(3).end, 12);
  EXPECT_THAT(CheckPrefillHead(frame, {2, 1}).message(),
              ::testing::HasSubstr("head 2:1 attends in chunks of 8 tokens"));
}

TEST_F(CutTrace, OfAnOddHeadDimIsAnalysedAndDrawn) {
  const HeadTensorsPtr whole = RandomHead({.num_tokens = 90, .head_dim = 17}, 32);
  const HeadTensorsPtr cut = Cut(*whole, 30, 80);
  const HeadStatistics statistics = ComputeStatistics(*cut, {});
  EXPECT_EQ(statistics.num_rows, 50);
  EXPECT_GT(statistics.outside_mass, 0.05);
  RenderRequest request;
  request.width = request.height = 64;
  const HeadMap map = MakeHeadMap(*cut, {}, request);
  EXPECT_EQ(map.texels.size(), 50U * 50) << "a texel a pair";
}

TEST_F(CutTrace, AMaskThatDropsNothingChangesNothing) {
  const HeadTensorsPtr whole = RandomHead({.num_tokens = 200, .head_dim = 16}, 33);
  const HeadTensorsPtr cut = Cut(*whole, 60, 200);
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = 140;
  kernels::SparseIndexBuilder builder(shape);
  for (int32_t tile = 0; tile < 140; tile += shape.tile_rows) {
    builder.AddRange(0, 140);
    builder.FinishList();
  }
  const kernels::SparseIndex everything = builder.Build();
  const kernels::SparseIndexView view = everything.View();
  RenderRequest request;
  request.view = ViewKind::kDifference;
  const TexelEdges edges = {EvenEdges(0, 1, 140), EvenEdges(0, 1, 140)};
  const MapValues map = ComputeMapValues(*cut, {.index = &view}, request, edges);
  for (const double value : map.values) {
    if (!std::isnan(value)) {
      ASSERT_NEAR(value, 0, 1e-5);
    }
  }
}

TEST_F(CutTrace, AnLseThatIsNotOfItsKeysIsTold) {
  const auto described = [this](const HeadTensors& head, int64_t first) {
    const HeadTensorsPtr loaded = Cut(head, first, head.num_tokens);
    return DescribeWrongLse(*loaded, data::TraceReader(folder_.File("cut.h5")));
  };
  HeadTensors head = *RandomHead({.num_tokens = 200, .head_dim = 16, .soft_cap = 30}, 34);
  EXPECT_EQ(described(head, 0), "");
  EXPECT_EQ(described(head, 50), "");
  // A foreign writer's base 2.
  HeadTensors in_bits = head;
  for (float& lse : in_bits.lse) lse *= 1.442695f;
  EXPECT_THAT(described(in_bits, 0), ::testing::AllOf(::testing::HasSubstr("cut.h5: /attention/lse of head 3:5"),
                                                      ::testing::HasSubstr("natural logarithm")));
  // Less than the keys of the part alone: no keys outside can mend that.
  HeadTensors too_small = head;
  for (float& lse : too_small.lse) lse -= 3;
  EXPECT_THAT(described(too_small, 50), ::testing::HasSubstr("/attention/lse"));
  // One row of them all, which is none of the four.
  for (const float absurd : {-1e30f, 1e30f}) {
    HeadTensors one_row = head;
    one_row.lse[77] = absurd;
    EXPECT_THAT(described(one_row, 0),
                ::testing::HasSubstr("row at position 77, is " + std::string(absurd < 0 ? "-1e+30" : "1e+30")));
  }
}

TEST_F(CutTrace, AWholeTraceKeepsTheRecordedLogSumExp) {
  data::testing::WriteTrace(folder_.File("places.h5"), data::testing::SmallLayout(ElementType::kFloat32, 400), 300,
                            100);
  const data::TraceReader whole(folder_.File("places.h5"));
  const HeadId id = RecordedHeads(whole).front();
  const HeadTensorsPtr head = LoadHead(whole, id);
  ASSERT_GT(head->num_rows, 100);
  for (int64_t row = 0; row < head->num_rows; ++row) {
    EXPECT_EQ(head->lse[static_cast<size_t>(row)],
              data::testing::LseValue(id.layer, id.head, head->row_positions[static_cast<size_t>(row)]));
  }
}

// Generated tokens are none of the prompt that a share is of.
TEST(RecordedPrompt, IsWhatAShareIsOf) {
  const data::testing::ScratchFolder folder;
  HeadTensors head = *RandomHead({.num_tokens = 600}, 23);
  head.prompt_tokens = 400;
  testing::WriteHeadTrace(head, folder.File("head.h5"));
  const HeadTensorsPtr recorded = LoadHead(data::TraceReader(folder.File("head.h5")), head.id);
  EXPECT_EQ(recorded->prompt_tokens, 400);
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("streaming-llm");
  const auto kept_mass = [&](const std::string& parameters) {
    kernels::ParameterValues values(method.spec());
    EXPECT_EQ(values.Parse(method.spec(), parameters), "");
    MaskPreview preview;
    EXPECT_TRUE(PreviewMask(*recorded, method, values, 2, {}, &preview).ok());
    return preview.kept_mass;
  };
  EXPECT_EQ(kept_mass("local_share=0.1"), kept_mass("n_local=40"));
  EXPECT_NE(kept_mass("local_share=0.1"), kept_mass("n_local=60"));
}

}  // namespace
}  // namespace headscope::analysis
