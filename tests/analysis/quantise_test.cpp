// SPDX-License-Identifier: Apache-2.0
#include "analysis/quantise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <stop_token>

#include "analysis/head_tensors.h"
#include "base/errors.h"
#include "data/trace_reader.h"
#include "head_trace.h"
#include "support/stopped.h"
#include "synthetic_heads.h"
#include "synthetic_trace.h"

namespace headscope::analysis {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(NumberFormats, RoundToNearestAndTiesToEven) {
  const auto rounded = [](NumberFormat format, std::initializer_list<float> values) {
    std::vector<float> all;
    for (const float value : values) all.push_back(Rounded(value, format));
    return all;
  };
  EXPECT_THAT(rounded(NumberFormat::kInt8, {0.5f, 1.5f, -2.5f, 126.6f, 200, -200}),
              ElementsAre(0, 2, -2, 127, 127, -127));
  EXPECT_THAT(rounded(NumberFormat::kInt4, {6.6f, -9, 0.4f}), ElementsAre(7, -7, 0));
  // e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
  EXPECT_THAT(rounded(NumberFormat::kMxfp4, {0.25f, 0.26f, 0.75f, 1.75f, 2.5f, 3.5f, 5, 5.1f, 7, -2.6f}),
              ElementsAre(0, 0.5f, 1, 2, 2, 4, 4, 6, 6, -3));
  // e4m3: 448 is the largest, 2^-9 the smallest; between 16 and 32 steps of 2.
  EXPECT_THAT(rounded(NumberFormat::kFp8E4m3, {500, -449, 17, 19, 0.001953125f, 0.0009f, 0.00098f}),
              ElementsAre(448, -448, 16, 20, 0.001953125f, 0, 0.001953125f));
}

TEST(NumberFormats, RoundingWhatIsRoundedChangesNothing) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const NumberFormat format :
       {NumberFormat::kFp8E4m3, NumberFormat::kInt8, NumberFormat::kInt4, NumberFormat::kMxfp4}) {
    for (int i = 0; i < 2000; ++i) {
      const float once = Rounded(LargestNumber(format) / 3 * normal(random), format);
      EXPECT_EQ(Rounded(once, format), once) << NameOf(format);
    }
  }
}

TEST(Hadamard, IsItsOwnInverseAndKeepsProducts) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const int32_t dim : {1, 2, 64, 96, 128, 7}) {
    std::vector<float> a(static_cast<size_t>(3 * dim)), b(a.size());
    for (float& value : a) value = normal(random);
    for (float& value : b) value = normal(random);
    std::vector<float> turned_a = a, turned_b = b;
    TurnByHadamard(turned_a, dim);
    TurnByHadamard(turned_b, dim);
    float product = 0, turned_product = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      product += a[i] * b[i];
      turned_product += turned_a[i] * turned_b[i];
    }
    EXPECT_NEAR(turned_product, product, 1e-3);
    if (dim == 64) {
      EXPECT_NE(turned_a, a);
    }
    TurnByHadamard(turned_a, dim);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(turned_a[i], a[i], 1e-5);
  }
}

TEST(RoundTo, ScalesAreThoseOfTheirGroup) {
  // Two tokens of three components.
  const std::vector<float> values = {1, -2, 14, 7, 0, 28};
  const auto scales = [&values](ScaleGroup group, float largest = 0) {
    std::vector<float> copy = values;
    return RoundTo({NumberFormat::kInt4, group, false}, largest, 3, copy);
  };
  EXPECT_THAT(scales(ScaleGroup::kHead), ElementsAre(4));
  EXPECT_THAT(scales(ScaleGroup::kTensor, 56), ElementsAre(8));
  EXPECT_THAT(scales(ScaleGroup::kChannel), ElementsAre(1, 2.0f / 7, 4));
  EXPECT_THAT(scales(ScaleGroup::kToken), ElementsAre(2, 4));
  std::vector<float> zeros(6);
  EXPECT_THAT(RoundTo({NumberFormat::kInt8, ScaleGroup::kToken, true}, 0, 3, zeros), ElementsAre(0, 0));
  EXPECT_THAT(zeros, Each(0));
}

TEST(RoundTo, MicroscalingSharesAPowerOfTwoByThirtyTwoComponents) {
  std::vector<float> values(40, 1);
  values[3] = 100;    // 2^6 <= 100 < 2^7: the scale is 2^4
  values[35] = 0.3f;  // 2^-2 <= 1 .. the second block's largest is 1: 2^-2
  const std::vector<float> scales = RoundTo({NumberFormat::kMxfp4, ScaleGroup::kBlock, false}, 0, 40, values);
  EXPECT_THAT(scales, ElementsAre(16, 0.25f));
  EXPECT_EQ(values[3], 96);
  EXPECT_EQ(values[0], 0) << "1 / 16 is nearer to 0 than to half";
  EXPECT_EQ(values[35], 0.25f);
}

// One component ten times the others makes a token's scale ten times too large for them.
TEST(RoundTo, RotationSpreadsOutliers) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(64 * 128));
  for (size_t i = 0; i < values.size(); ++i) values[i] = (i % 128 == 5 ? 10.0f : 1.0f) * normal(random);
  const auto error = [&values](bool hadamard) {
    std::vector<float> copy = values;
    RoundTo({NumberFormat::kInt4, ScaleGroup::kToken, hadamard}, 0, 128, copy);
    double sum = 0;
    for (size_t i = 0; i < copy.size(); ++i) sum += std::pow(static_cast<double>(copy[i] - values[i]), 2);
    return std::sqrt(sum);
  };
  EXPECT_LT(error(true), 0.6 * error(false));
}

// Once, a setting of a head was done before anybody looked at the request.
// Of long traces there are millions of them.
TEST(QuantisationJson, WritesScalesShortlyAndOnOneLine) {
  QuantisedHead head;
  head.head = {2, 3};
  head.quantisation = {NumberFormat::kInt8, ScaleGroup::kToken, true};
  head.relative_error = 0.125;
  head.q_scales = {0.1f, 3e-5f, 1.0f / 3};
  head.v_scales.assign(1000, 0.1f);
  const std::string json = QuantisationJson({head, head});
  const nlohmann::json read = nlohmann::json::parse(json);
  EXPECT_EQ(read["schema"], "headscope-quantisation-1");
  ASSERT_EQ(read["results"].size(), 2u);
  const nlohmann::json& entry = read["results"][1];
  EXPECT_EQ(entry["layer"], 2);
  EXPECT_EQ(entry["format"], "int8");
  EXPECT_EQ(entry["hadamard"], true);
  EXPECT_EQ(entry["relative_error"], 0.125);
  EXPECT_EQ(entry["q_scales"].get<std::vector<float>>(), head.q_scales);
  EXPECT_EQ(entry["v_scales"].get<std::vector<float>>(), head.v_scales);
  EXPECT_FALSE(entry.contains("k_scales"));
  EXPECT_NE(json.find("[0.1,3e-05,0.33333334]"), std::string::npos) << json.substr(0, 400);
  EXPECT_LT(std::ranges::count(json, '\n'), 20);
  EXPECT_LT(json.size(), 2 * 1000 * 4 + 2000);
  EXPECT_EQ(nlohmann::json::parse(QuantisationJson({}))["results"].size(), 0u);
}

TEST(QuantiseHeads, StopsWithinASetting) {
  const HeadTensorsPtr head = testing::RandomHead({.num_tokens = 4000, .head_dim = 128}, 4);
  const data::testing::ScratchFolder folder;
  testing::WriteHeadTrace(*head, folder.File("head.h5"));
  const data::TraceReader trace(folder.File("head.h5"));
  QuantisationRequest request;
  request.formats = {NumberFormat::kInt8};
  request.groups = {ScaleGroup::kTensor};
  request.hadamard = {false};
  request.max_rows = 0;
  request.num_threads = 1;
  int32_t num_stopped = 0;
  constexpr double kEnough = 0.1;
  for (const int after : {50, 400, 900}) {
    const double seconds = SecondsToStop(
        [&](const std::stop_token& stop) {
          request.stop = stop;
          try {
            static_cast<void>(QuantiseHeads(trace, RecordedHeads(trace), request));
          } catch (const CancelledError&) {
            ++num_stopped;  // a fast machine is done before the later requests
          }
        },
        std::chrono::milliseconds(after), kEnough);
    EXPECT_LT(seconds, kEnough) << after;
  }
  EXPECT_GT(num_stopped, 0);
}

}  // namespace
}  // namespace headscope::analysis
