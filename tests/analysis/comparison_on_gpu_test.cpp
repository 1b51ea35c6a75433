// SPDX-License-Identifier: Apache-2.0
// Methods measured on the GPU keep what they keep on the CPU, and lose what they lose there.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "analysis/compare.h"
#include "base/device.h"
#include "compare/decode_device.h"
#include "evicting_method.h"
#include "head/head_on_gpu.h"
#include "head_pair.h"
#include "kernels/cpu_executor.h"
#include "kernels/cuda_executor.h"
#include "kernels/method_names.h"
#include "support/gpu.h"

namespace headscope::analysis {
namespace {

using testing::HeadPair;
using testing::OnBoth;
using testing::RandomHeadShape;

// The output is rounded to bf16: 2^-9 of each value, of the sparse and of the dense one.
constexpr double kRounding = 4e-3;

struct Case {
  const char* method;
  const char* parameters;
};

class OnTheGpu : public ::testing::TestWithParam<RandomHeadShape> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    pair_ = OnBoth(GetParam(), 5);
    ASSERT_NE(pair_.gpu->gpu, nullptr);
    CompareOptions options;
    options.repeats = 2;
    options.decode_rows = 5;
    on_cpu_ = std::make_unique<HeadComparison>(pair_.cpu, options);
    options.device = CudaDevice(0);
    on_gpu_ = std::make_unique<HeadComparison>(pair_.gpu, options);
  }

  // Runs the method on both and holds the GPU's result against the CPU's; `mass_tolerance`, of CRA.
  void ExpectTheCpus(const std::string& name, const kernels::ParameterValues& values, double mass_tolerance,
                     MethodResult* gpu) {
    MethodResult cpu;
    ASSERT_TRUE(on_cpu_->Run(name, values, &cpu).ok());
    const kernels::Status status = on_gpu_->Run(name, values, gpu);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cpu.device, NamedCpu());
    EXPECT_NE(gpu->device, NamedCpu());
    EXPECT_EQ(gpu->phase, cpu.phase);
    EXPECT_EQ(gpu->kept_fraction, cpu.kept_fraction);
    EXPECT_NEAR(gpu->cra_min, cpu.cra_min, mass_tolerance);
    EXPECT_NEAR(gpu->cra_p5, cpu.cra_p5, mass_tolerance);
    EXPECT_NEAR(gpu->cra_mean, cpu.cra_mean, mass_tolerance);
    EXPECT_NEAR(gpu->relative_error, cpu.relative_error, kRounding + mass_tolerance);
    EXPECT_NEAR(gpu->cosine, cpu.cosine, kRounding + mass_tolerance);
    EXPECT_LT(gpu->kernel_error, 5e-3);
    EXPECT_GT(gpu->attend.median_ms, 0);
    EXPECT_GT(gpu->dense_attend.median_ms, 0);
  }

  template <typename Method>
  static kernels::ParameterValues Values(const Method& method, const char* parameters) {
    kernels::ParameterValues values(method.spec());
    EXPECT_EQ(values.Parse(method.spec(), parameters), "");
    return values;
  }

  HeadPair pair_;
  std::unique_ptr<HeadComparison> on_cpu_, on_gpu_;
};

TEST_P(OnTheGpu, PrefillMethodsKeepTheSame) {
  for (const Case& c :
       {Case{"dense", ""}, Case{"a-shape", "n_sink=150,n_local=40"}, Case{"a-shape", "n_sink=0,n_local=40"},
        Case{"a-shape", "n_sink=100,n_local=700"}, Case{"vertical-slash", "n_vertical=60,n_slash=40"},
        Case{"block-sparse", "n_blocks=3"}, Case{"s2-attention", "vertical_stride=3"},
        Case{"sample-attention", "alpha_c=0.5,alpha_s=0.5"}}) {
    SCOPED_TRACE(std::string(c.method) + ":" + c.parameters);
    MethodResult gpu;
    ExpectTheCpus(c.method, Values(*kernels::FindPrefillMethod(c.method), c.parameters), 1e-5, &gpu);
    if (pair_.cpu->window > 0) {
      // The GPU's selectors know no window of a model.
      EXPECT_EQ(gpu.select_device, NamedCpu());
      EXPECT_NE(gpu.note, "");
    } else {
      EXPECT_EQ(gpu.select_device, gpu.device);
      EXPECT_EQ(gpu.note, "");
    }
  }
  const char* const far = "vertical_stride=2,far_factor=3,far_distance=2,dense_layers=0";
  MethodResult gpu;
  ExpectTheCpus("s2-attention", Values(*kernels::FindPrefillMethod("s2-attention"), far), 1e-5, &gpu);
  EXPECT_EQ(gpu.select_device, NamedCpu());
  EXPECT_NE(gpu.note, "");
}

TEST_P(OnTheGpu, DecodeMethodsKeepTheSame) {
  for (const Case& c :
       {Case{"dense", ""}, Case{"sliding-window", "n_local=30,n_sink=0"}, Case{"sliding-window", "n_local=30,n_sink=4"},
        Case{"sliding-window", "n_local=30,n_sink=590"}, Case{"sparq", "r=16,k=40,reallocate=0"},
        Case{"sparq", "r=16,k=40,reallocate=1"}, Case{"sparq", "r=16,k=40,reallocate=1,copies=one"},
        Case{"quest", "budget=100,page_size=16,dense_layers=0"}}) {
    SCOPED_TRACE(std::string(c.method) + ":" + c.parameters);
    // These order tokens or pages by estimates; where two are equal but for rounding the GPU may take the other one.
    const bool by_place = kernels::FindDecodeMethod(c.method)->spec().IsStatic();
    const double mass_tolerance = by_place ? 1e-5 : 5e-3;
    MethodResult gpu;
    ExpectTheCpus(std::string("decode/") + c.method, Values(*kernels::FindDecodeMethod(c.method), c.parameters),
                  mass_tolerance, &gpu);
    EXPECT_EQ(gpu.phase, kernels::Phase::kDecode);
    EXPECT_EQ(gpu.select_device, gpu.device);
  }
}

// Lists, weights and mean values of the CPU's choice, which the GPU attends to.
TEST_P(OnTheGpu, AttendsToWhatTheCpuChooses) {
  for (const Case& c : {Case{"exact-top-k", "k=40"}, Case{"exact-top-k", "k=40,others=dropped"},
                        Case{"exact-top-k", "k=40,others=mean_value"}, Case{"sparq", "r=16,k=40,group=scores"}}) {
    SCOPED_TRACE(std::string(c.method) + ":" + c.parameters);
    // What the others' mass becomes is not defined beside a window.
    if (pair_.cpu->window > 0 && std::string_view(c.parameters).find("others") != std::string_view::npos) continue;
    MethodResult gpu;
    ExpectTheCpus(std::string("decode/") + c.method, Values(*kernels::FindDecodeMethod(c.method), c.parameters), 5e-3,
                  &gpu);
  }
}

// A layer on the GPU, all heads in one launch: what each head keeps and loses is what it does on the CPU.
class LayerOnTheGpu : public ::testing::TestWithParam<RandomHeadShape> {
 protected:
  static constexpr int32_t kKvHeads = 2, kGroup = 4;

  void SetUp() override {
    SKIP_WITHOUT_GPU();
    layer_ = testing::MakeRandomLayer(GetParam(), kKvHeads, kGroup, 21, /*bf16=*/true);
    for (const Case& c :
         {Case{"dense", ""}, Case{"a-shape", "n_sink=40,n_local=60"},
          Case{"vertical-slash", "n_vertical=60,n_slash=40"}, Case{"block-sparse", "n_blocks=3"},
          Case{"s2-attention", "vertical_stride=3"}, Case{"sample-attention", "alpha_c=0.5,alpha_s=0.5"},
          Case{"decode/dense", ""}, Case{"sliding-window", "n_local=30,n_sink=0"},
          Case{"sliding-window", "n_local=30,n_sink=4"}, Case{"sparq", "r=16,k=40,reallocate=0"},
          Case{"sparq", "r=16,k=40,reallocate=1"}, Case{"sparq", "r=16,k=40,reallocate=0,copies=one"},
          Case{"quest", "budget=100,page_size=16,dense_layers=0"}}) {
      const kernels::MethodSpec& spec = *kernels::FindMethod(c.method).spec();
      kernels::ParameterValues values(spec);
      ASSERT_EQ(values.Parse(spec, c.parameters), "");
      methods_.push_back({c.method, values});
    }
  }

  std::vector<MethodResult> RunOn(const Device& device) const {
    CompareOptions options;
    options.repeats = 3;
    options.decode_rows = 5;
    options.device = device;
    std::vector<MethodResult> results;
    const kernels::Status status = LayerComparison(layer_.measured, options).Run(methods_, heads_, &results);
    EXPECT_TRUE(status.ok()) << status.message();
    results.resize(methods_.size() * heads_.size());
    return results;
  }

  testing::RandomLayer layer_;
  std::vector<AskedMethod> methods_;
  const std::vector<HeadId> heads_ = {{3, 0}, {3, 6}};
};

TEST_P(LayerOnTheGpu, KeepsWhatTheCpuKeepsOfEveryHead) {
  const std::vector<MethodResult> cpu = RunOn(kCpu), gpu = RunOn(CudaDevice(0));
  for (size_t i = 0; i < gpu.size(); ++i) {
    SCOPED_TRACE(gpu[i].method + ":" + gpu[i].parameters + " of head " + std::to_string(gpu[i].head.head));
    const bool by_estimates = gpu[i].method == "sparq" || gpu[i].method == "quest";
    const double mass_tolerance = by_estimates ? 5e-3 : 1e-5;
    EXPECT_EQ(gpu[i].head, cpu[i].head);
    EXPECT_EQ(ScopeText(gpu[i].head, gpu[i].measured), "layer 3: 8 heads");
    EXPECT_EQ(gpu[i].chosen_per, cpu[i].chosen_per);
    EXPECT_EQ(gpu[i].kept_fraction, cpu[i].kept_fraction);
    EXPECT_EQ(gpu[i].num_rows, cpu[i].num_rows);
    EXPECT_NEAR(gpu[i].cra_min, cpu[i].cra_min, mass_tolerance);
    EXPECT_NEAR(gpu[i].cra_mean, cpu[i].cra_mean, mass_tolerance);
    EXPECT_NEAR(gpu[i].relative_error, cpu[i].relative_error, kRounding + mass_tolerance);
    EXPECT_LT(gpu[i].kernel_error, 5e-3);
    EXPECT_EQ(gpu[i].attend.repeats, 3);
    EXPECT_EQ(gpu[i].dense_attend.repeats, 3) << "in turn with the method";
    EXPECT_GT(gpu[i].attend.median_ms, 0);
    EXPECT_EQ(gpu[i].baseline, "headscope");
    EXPECT_EQ(gpu[i].chosen_per == kernels::ChosenPer::kKvHead, by_estimates);
    EXPECT_TRUE(!by_estimates || gpu[i].select_device == gpu[i].device);
  }
}

// Layers whose values have another head_dim than their keys, with learned sinks, a window, a soft cap: every executor
// on the GPU takes them; what its launches do not choose by is chosen on the CPU, and the result says so.
class OddLayerOnTheGpu : public ::testing::TestWithParam<RandomHeadShape> {};

TEST_P(OddLayerOnTheGpu, RunsThereAndKeepsWhatTheCpuKeeps) {
  SKIP_WITHOUT_GPU();
  const RandomHeadShape& shape = GetParam();
  const testing::RandomLayer layer =
      testing::MakeRandomLayer(shape, /*num_kv_heads=*/2, /*group_size=*/3, 21, /*bf16=*/true);
  ASSERT_EQ(layer.measured->sinks.size(), shape.sinks ? 6u : 0u);
  std::vector<AskedMethod> methods;
  for (const Case& c :
       {Case{"dense", ""}, Case{"a-shape", "n_sink=40,n_local=60"}, Case{"block-sparse", "n_blocks=3"},
        Case{"decode/dense", ""}, Case{"sliding-window", "n_local=30,n_sink=4"}, Case{"tova", "k=64"},
        Case{"sparq", "r=16,k=40,reallocate=0"}, Case{"quest", "budget=100,page_size=16,dense_layers=0"}}) {
    const kernels::MethodSpec& spec = *kernels::FindMethod(c.method).spec();
    kernels::ParameterValues values(spec);
    ASSERT_EQ(values.Parse(spec, c.parameters), "");
    methods.push_back({c.method, values});
  }
  const std::vector<HeadId> heads = {{3, 0}, {3, 5}};
  const auto run_on = [&](const Device& device) {
    CompareOptions options;
    options.repeats = 2;
    options.decode_rows = 5;
    options.device = device;
    std::vector<MethodResult> results;
    const kernels::Status status = LayerComparison(layer.measured, options).Run(methods, heads, &results);
    EXPECT_TRUE(status.ok()) << status.message();
    results.resize(methods.size() * heads.size());
    return results;
  };
  const std::vector<MethodResult> cpu = run_on(kCpu), gpu = run_on(CudaDevice(0));
  const bool sparq_chooses = shape.v_head_dim == 0 && !shape.sinks && shape.soft_cap == 0;
  const bool quest_chooses = shape.head_dim == 64 || shape.head_dim == 128;
  for (size_t i = 0; i < gpu.size(); ++i) {
    SCOPED_TRACE(gpu[i].method + ":" + gpu[i].parameters + " of head " + std::to_string(gpu[i].head.head));
    const std::string& method = gpu[i].method;
    const bool chooses = (method == "sparq" && sparq_chooses) || (method == "quest" && quest_chooses);
    const double mass_tolerance = method == "sparq" || method == "quest" ? 5e-3 : 1e-5;
    EXPECT_NE(gpu[i].device, NamedCpu());
    EXPECT_EQ(gpu[i].kept_fraction, cpu[i].kept_fraction);
    EXPECT_NEAR(gpu[i].cra_mean, cpu[i].cra_mean, mass_tolerance);
    EXPECT_NEAR(gpu[i].relative_error, cpu[i].relative_error, kRounding + mass_tolerance);
    EXPECT_LT(gpu[i].kernel_error, 5e-3);
    EXPECT_LT(cpu[i].kernel_error, 1e-5);
    EXPECT_GT(gpu[i].attend.median_ms, 0);
    if (method == "sparq" || method == "quest") {
      EXPECT_EQ(gpu[i].select_device, chooses ? gpu[i].device : NamedCpu());
      EXPECT_EQ(gpu[i].note.find("selects on the CPU: ") != std::string::npos, !chooses) << gpu[i].note;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, OddLayerOnTheGpu,
    ::testing::Values(RandomHeadShape{.num_tokens = 700, .head_dim = 192, .v_head_dim = 128},
                      RandomHeadShape{.num_tokens = 700, .head_dim = 64, .window = 90, .soft_cap = 20, .sinks = true},
                      RandomHeadShape{.num_tokens = 700, .head_dim = 64, .v_head_dim = 48, .sinks = true},
                      RandomHeadShape{.num_tokens = 500, .head_dim = 128, .sinks = true}));

// A method that no kernel chooses for selects on the CPU, keeps its state there, and is attended on the GPU.
TEST_P(LayerOnTheGpu, RunsAMethodThatSelectsOnTheCpu) {
  CompareOptions options;
  options.decode_rows = 5;
  options.device = CudaDevice(0);
  const DecodeSteps steps(*layer_.measured, {3, 0}, options.decode_rows);
  std::unique_ptr<DecodeDevice> device;
  ASSERT_TRUE(MakeDecodeDevice(layer_.measured, steps, options, &device).ok());
  const testing::EvictingMethod method;
  const kernels::ParameterValues none;
  DecodeRun run;
  std::unique_ptr<DecodeWork> work;
  kernels::Status status = device->Prepare(method, none, &run, &work);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(run.select_device, NamedCpu());
  EXPECT_EQ(run.note, "evicting selects on the CPU: it has no GPU kernel");
  double select_ms = 0, attend_ms = 0;
  status = work->Once(&select_ms, &attend_ms);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_GT(select_ms, 0);
  EXPECT_GT(attend_ms, 0);
  EXPECT_EQ(method.seen->begins, 2);
  EXPECT_EQ(method.seen->attended, 10);
  const int64_t head_dim = GetParam().head_dim, heads = int64_t{kKvHeads} * kGroup;
  for (int64_t step = 0; step < steps.count(); ++step) {
    std::vector<float> expected(static_cast<size_t>(heads * head_dim));
    std::vector<float> lse(static_cast<size_t>(heads));
    ASSERT_TRUE(kernels::DecodeReference(steps.Problem(device->Problem(), step),
                                         run.selections[static_cast<size_t>(step)],
                                         {{expected.data(), heads * head_dim, head_dim, head_dim}, lse.data()})
                    .ok());
    double error = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto value = static_cast<double>(run.o[static_cast<size_t>(step) * expected.size() + i]);
      error += std::pow(value - static_cast<double>(expected[i]), 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    EXPECT_LE(std::sqrt(error), kRounding * std::sqrt(norm)) << "step " << step;
    for (size_t i = 0; i < lse.size() && step + 1 == steps.count(); ++i) EXPECT_NEAR(method.seen->lse[i], lse[i], 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LayerOnTheGpu,
    ::testing::Values(RandomHeadShape{.num_tokens = 1200, .head_dim = 64},
                      RandomHeadShape{.num_tokens = 900, .first_row = 500, .head_dim = 128, .sharpness = 1},
                      RandomHeadShape{.num_tokens = 610, .first_row = 203, .head_dim = 128, .window = 129}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, OnTheGpu,
    ::testing::Values(RandomHeadShape{.num_tokens = 2000, .head_dim = 64},
                      RandomHeadShape{.num_tokens = 1300, .first_row = 900, .head_dim = 128, .sharpness = 1},
                      RandomHeadShape{.num_tokens = 700, .head_dim = 64, .window = 200, .sharpness = 1},
                      RandomHeadShape{.num_tokens = 610, .first_row = 203, .head_dim = 128, .window = 129},
                      RandomHeadShape{.num_tokens = 400, .head_dim = 64, .window = 50, .sharpness = 1}));

// The number of a GPU is part of the device, and not of the thread that happens to do the work.
TEST(DevicesByNumber, TheOneBehindTheLastIsRefusedByItsNumber) {
  SKIP_WITHOUT_GPU();
  int32_t behind = 0;
  kernels::CudaDeviceInfo info;
  while (kernels::QueryCudaDevice(behind, &info).ok()) ++behind;
  HeadTensors head = testing::Bf16Head({.num_tokens = 200, .head_dim = 64}, 3);
  CompareOptions options;
  options.repeats = 1;
  options.device = CudaDevice(behind);
  MethodResult result;
  kernels::Status status;
  std::thread([&] {
    status = HeadComparison(std::make_shared<HeadTensors>(head), options)
                 .Run("dense", kernels::ParameterValues(kernels::MethodSpec()), &result);
  }).join();
  EXPECT_EQ(status.code(), kernels::StatusCode::kDeviceMissing);
  EXPECT_NE(status.message().find("GPU " + std::to_string(behind)), std::string::npos) << status.message();
  status = CopyToGpu(CudaDevice(behind), &head);
  EXPECT_EQ(status.code(), kernels::StatusCode::kDeviceMissing);
  EXPECT_EQ(head.gpu, nullptr);
  // Nothing of this has moved the thread's own GPU.
  options.device = CudaDevice(0);
  ASSERT_TRUE(HeadComparison(std::make_shared<HeadTensors>(head), options)
                  .Run("dense", kernels::ParameterValues(kernels::MethodSpec()), &result)
                  .ok());
  EXPECT_EQ(result.device.device, CudaDevice(0));
}

}  // namespace
}  // namespace headscope::analysis
