// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stop_token>

#include "analysis/compare.h"
#include "analysis/types/timing.h"
#include "base/device.h"
#include "compare/decode_comparison.h"
#include "compare/output_error.h"
#include "kernels/cuda_executor.h"
#include "kernels/method_names.h"
#include "support/stopped.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using testing::RandomHead;

kernels::ParameterValues Defaults(const std::string& name) {
  if (const kernels::PrefillMethod* method = kernels::FindPrefillMethod(name))
    return kernels::ParameterValues(method->spec());
  return kernels::ParameterValues(kernels::FindDecodeMethod(name)->spec());
}

CompareOptions Quick() {
  CompareOptions options;
  options.repeats = 3;
  options.num_threads = 2;
  return options;
}

TEST(Comparison, DenseAgainstItselfIsExact) {
  HeadComparison comparison(RandomHead({.num_tokens = 600, .head_dim = 64}, 1), Quick());
  MethodResult result;
  const kernels::Status status = comparison.Run("dense", Defaults("dense"), &result);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(result.relative_error, 0);
  EXPECT_EQ(result.kept_fraction, 1);
  EXPECT_NEAR(result.cra_min, 1, 2e-6);
  EXPECT_NEAR(result.cosine, 1, 1e-6);
  EXPECT_LT(result.kernel_error, 1e-5);
  EXPECT_GT(result.dense_attend.median_ms, 0);
  EXPECT_EQ(result.attend.repeats, 3);
  EXPECT_EQ(result.phase, kernels::Phase::kPrefill);
  EXPECT_EQ(result.device, NamedCpu());
  EXPECT_EQ(result.select_device, NamedCpu());
  EXPECT_EQ(result.note, "");
}

// Of stretches that take microseconds there are as many repeats as fill the time that was asked for, up to a limit.
TEST(Comparison, ShortStretchesAreRepeatedUntilTheyHaveTakenTheTimeAskedFor) {
  CompareOptions options = Quick();
  options.least_ms = 60;  // three stretches are far shorter, under a sanitizer on a busy machine too
  int32_t told = 0;
  options.progress = [&](const RepeatProgress& progress) {
    EXPECT_LE(progress.repeat, progress.repeats);
    told += progress.phase == kernels::Phase::kPrefill && progress.repeat > 0 ? 1 : 0;
  };
  HeadComparison comparison(RandomHead({.num_tokens = 64, .head_dim = 64}, 9), options);
  MethodResult result;
  ASSERT_TRUE(comparison.Run("dense", Defaults("dense"), &result).ok());
  EXPECT_GT(result.attend.repeats, 3);
  EXPECT_LE(result.attend.repeats, kMostRepeats);
  EXPECT_EQ(result.asked_repeats, 3);
  EXPECT_EQ(told, result.attend.repeats);
  ASSERT_TRUE(comparison.Run("sparq", Defaults("sparq"), &result).ok());
  EXPECT_GT(result.attend.repeats, 3);
  EXPECT_LE(result.attend.repeats, kMostRepeats);
}

// Renormalised attention over a kept set with mass c differs from dense attention by at most 2 (1 - c) max |V|.
TEST(Comparison, ErrorOfEveryMethodObeysTheMassBound) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 1500, .head_dim = 64}, 2);
  float largest = 0;
  for (const float value : head->v) largest = std::max(largest, std::fabs(value));
  HeadComparison comparison(head, Quick());
  int32_t sparse = 0;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    MethodResult result;
    const kernels::Status status = comparison.Run(method->spec().name, Defaults(method->spec().name), &result);
    ASSERT_TRUE(status.ok()) << method->spec().name << ": " << status.message();
    EXPECT_LE(result.max_error, 2 * (1 - result.cra_min) * static_cast<double>(largest) + 1e-5) << result.method;
    EXPECT_LT(result.kernel_error, 1e-5) << result.method;
    EXPECT_LE(result.cra_min, result.cra_mean);
    sparse += result.kept_fraction < 1;
  }
  EXPECT_GT(sparse, 0);
}

TEST(Comparison, DecodeMethodsRunOnTheLastRows) {
  // Long enough that the defaults of nearly every method leave something out.
  HeadComparison comparison(RandomHead({.num_tokens = 1600, .head_dim = 64}, 3), Quick());
  int refused = 0, whole = 0;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    const std::string name = "decode/" + method->spec().name;
    MethodResult result;
    const kernels::Status status = comparison.Run(name, kernels::ParameterValues(method->spec()), &result);
    if (status.code() == kernels::StatusCode::kUnsupported) {
      // One head alone has no lower layer, and no queries before RoPE.
      EXPECT_THAT(status.message(),
                  ::testing::AnyOf(::testing::HasSubstr("RoPE"), ::testing::HasSubstr("selection is missing")));
      ++refused;
      continue;
    }
    ASSERT_TRUE(status.ok()) << name << ": " << status.message();
    EXPECT_EQ(result.phase, kernels::Phase::kDecode);
    EXPECT_EQ(result.method, kernels::UniqueName(method->spec())) << "dense decode was called as dense prefill is";
    EXPECT_LT(result.kernel_error, 1e-5) << name;
    EXPECT_GT(result.kept_fraction, 0);
    EXPECT_LE(result.kept_fraction, 1);
    if (method->spec().name == "dense") {
      EXPECT_EQ(result.relative_error, 0);
      EXPECT_NEAR(result.cra_min, 1, 1e-5);
    } else if (result.kept_fraction < 1 || method->spec().name == "think") {  // which keeps tokens, not components
      EXPECT_GT(result.relative_error, 0) << name;
    } else {
      ++whole;  // budgets of thousands of tokens
    }
  }
  EXPECT_LE(refused, 2);
  EXPECT_LE(whole, 2);
}

TEST(Comparison, DecodeNeedsNoConsecutiveRowsAndPrefillDoes) {
  HeadComparison comparison(RandomHead({.num_tokens = 300, .row_step = 7}, 4), Quick());
  MethodResult result;
  EXPECT_TRUE(comparison.Run("decode/dense", Defaults("dense"), &result).ok());
  EXPECT_EQ(comparison.Run("dense", Defaults("dense"), &result).code(), kernels::StatusCode::kUnsupported);
}

TEST(Comparison, RefusesWhatItDoesNotKnow) {
  HeadComparison comparison(RandomHead({.num_tokens = 100}, 5), Quick());
  MethodResult result;
  const kernels::Status status = comparison.Run("nonesuch", {}, &result);
  EXPECT_EQ(status.code(), kernels::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              ::testing::AllOf(::testing::HasSubstr("nonesuch"), ::testing::HasSubstr("vertical-slash"),
                               ::testing::HasSubstr("sparq")));
}

TEST(Comparison, CancelledRunReportsItAndLeavesTheResult) {
  const std::stop_token stopped = StoppedToken();
  CompareOptions options = Quick();
  options.stop = stopped;
  HeadComparison comparison(RandomHead({.num_tokens = 300}, 7), options);
  MethodResult result;
  result.method = "untouched";
  EXPECT_EQ(comparison.Run("dense", Defaults("dense"), &result).code(), kernels::StatusCode::kCancelled);
  EXPECT_EQ(result.method, "untouched");
}

TEST(Comparison, WithoutAGpuCudaSaysSo) {
  kernels::CudaDeviceInfo info;
  if (kernels::QueryCudaDevice(0, &info).ok()) GTEST_SKIP() << "this machine has a GPU";
  CompareOptions options = Quick();
  options.device = CudaDevice(0);
  HeadComparison comparison(RandomHead({.num_tokens = 100, .head_dim = 64}, 8), options);
  MethodResult result;
  EXPECT_EQ(comparison.Run("dense", Defaults("dense"), &result).code(), kernels::StatusCode::kDeviceMissing);
}

TEST(BytesBesideDense, AreFewerAsManyOrMore) {
  EXPECT_EQ(BytesBesideDense(3.24), "3.2 times fewer bytes than dense decode");
  EXPECT_EQ(BytesBesideDense(1.06), "1.1 times fewer bytes than dense decode");
  for (const double about_one : {1.04, 1.0, 0.96})
    EXPECT_EQ(BytesBesideDense(about_one), "as many bytes as dense decode");
  EXPECT_EQ(BytesBesideDense(0.9), "1.1 times as many bytes as dense decode");
  EXPECT_EQ(BytesBesideDense(0.5), "2.0 times as many bytes as dense decode");
}

TEST(OutputError, MatchesItsDefinitions) {
  const std::vector<float> reference = {3, 4, 0, 0, 1, 0};
  const std::vector<float> output = {3, 4, 0, 0, 0, 2};
  const OutputError error = MeasureError(output.data(), reference.data(), 3, 2);
  EXPECT_NEAR(error.relative, std::sqrt(5.0 / 26.0), 1e-12);
  EXPECT_EQ(error.maximum, 2);
  EXPECT_NEAR(error.cosine, (1 + 1 + 0) / 3.0, 1e-12);
}

TEST(OutputError, ANaNAnywhereIsNoSmallError) {
  const std::vector<float> reference = {3, 4, 0, 0, 1, 0};
  for (size_t place = 0; place < reference.size(); ++place) {
    std::vector<float> output = reference;
    output[place] = std::numeric_limits<float>::quiet_NaN();
    for (const bool swapped : {false, true}) {
      const OutputError error =
          MeasureError((swapped ? reference : output).data(), (swapped ? output : reference).data(), 3, 2);
      EXPECT_TRUE(std::isnan(error.relative)) << place;
      EXPECT_TRUE(std::isnan(error.maximum)) << place;
      EXPECT_TRUE(std::isnan(error.cosine)) << place;
    }
  }
}

TEST(Timing, MedianAndDeviation) {
  const Timing timing = SummariseTimes({5, 1, 2, 100, 3});
  EXPECT_EQ(timing.median_ms, 3);
  EXPECT_EQ(timing.mad_ms, 2);
  EXPECT_EQ(timing.repeats, 5);
  EXPECT_EQ(SummariseTimes({4, 1}).median_ms, 2.5);
}

}  // namespace
}  // namespace headscope::analysis
