// SPDX-License-Identifier: Apache-2.0
// A method that an extension adds has no kernel for GPUs: there it selects on the CPU, attends on the GPU, says so, and
// keeps and loses what it does on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "base/device.h"
#include "kernels/method_names.h"
#include "support/gpu.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using ::testing::HasSubstr;

// The output is rounded to bf16: 2^-9 of each value, of the sparse and of the dense one.
constexpr double kRounding = 4e-3;

// What a result's note says, remark by remark.
std::vector<std::string> NotesOf(const MethodResult& result) {
  std::vector<std::string> notes;
  std::istringstream text(result.note);
  for (std::string note; std::getline(text, note, ';');) notes.push_back(note);
  return notes;
}

// Said of times alone: on a machine that is slowed down, as by a checking tool, dense decode does not run at its rate.
MATCHER(IsOfTheClock, "is a remark on times") {
  return arg.find("faster than that allows") != std::string::npos;
}

class ExtensionOnTheGpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }

  // Of every head of a layer.
  static std::vector<MethodResult> Measured(const testing::RandomLayer& layer, const kernels::MethodSpec& spec,
                                            const kernels::ParameterValues& values, const Device& device) {
    CompareOptions options;
    options.repeats = 2;
    options.decode_rows = 5;
    options.device = device;
    std::vector<HeadId> heads;
    for (const HeadTensorsPtr& head : layer.heads) heads.push_back(head->id);
    std::vector<MethodResult> results;
    LayerComparison comparison(layer.measured, options);
    const kernels::Status status = comparison.Run({{kernels::UniqueName(spec), values}}, heads, &results);
    EXPECT_TRUE(status.ok()) << status.message();
    return results;
  }
};

TEST_P(ExtensionOnTheGpu, SelectsOnTheCpuAndAttendsOnTheGpu) {
  const std::string text = GetParam(), name = text.substr(0, text.find(':'));
  const kernels::MethodSpec* const spec = kernels::FindMethod(name).spec();
  ASSERT_NE(spec, nullptr);
  kernels::ParameterValues values(*spec);
  ASSERT_EQ(values.Parse(*spec, text.substr(name.size() + 1)), "");
  const testing::RandomLayer layer =
      testing::MakeRandomLayer({.num_tokens = 500, .head_dim = 64}, 2, 4, 21, /*bf16=*/true);
  const std::vector<MethodResult> cpu = Measured(layer, *spec, values, kCpu);
  const std::vector<MethodResult> gpu = Measured(layer, *spec, values, CudaDevice(0));
  ASSERT_EQ(cpu.size(), layer.heads.size());
  ASSERT_EQ(gpu.size(), layer.heads.size());
  for (size_t i = 0; i < gpu.size(); ++i) {
    EXPECT_EQ(gpu[i].device.device, CudaDevice(0));
    EXPECT_EQ(gpu[i].select_device, NamedCpu());
    EXPECT_THAT(gpu[i].note, HasSubstr(name + " selects on the CPU"));
    EXPECT_THAT(NotesOf(cpu[i]), ::testing::Each(IsOfTheClock()));
    EXPECT_LT(gpu[i].kept_fraction, 1);
    EXPECT_EQ(gpu[i].kept_fraction, cpu[i].kept_fraction);
    // Of two tokens that nearly tie, a method that learns from the output may evict the other one.
    const double mass_tolerance = spec->reads_output ? 1e-3 : 1e-5;
    EXPECT_NEAR(gpu[i].cra_min, cpu[i].cra_min, mass_tolerance);
    EXPECT_NEAR(gpu[i].cra_mean, cpu[i].cra_mean, mass_tolerance);
    EXPECT_NEAR(gpu[i].relative_error, cpu[i].relative_error, kRounding + mass_tolerance);
    EXPECT_LT(gpu[i].kernel_error, 5e-3);
    EXPECT_GT(gpu[i].select.median_ms, 0);
    EXPECT_GT(gpu[i].attend.median_ms, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, ExtensionOnTheGpu,
                         ::testing::Values("every-nth:n_local=64,stride=10", "heavy-hitters:k=64"),
                         [](const auto& each) { return each.index == 0 ? "prefill" : "decode"; });

}  // namespace
}  // namespace headscope::analysis
