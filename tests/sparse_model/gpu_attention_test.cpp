// SPDX-License-Identifier: Apache-2.0
// The attention of a model on a GPU is that of the same model in host memory, pass by pass, whatever selects where.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "attention_calls.h"
#include "base/errors.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_resources.h"
#include "sparse_model/own_dense.h"

namespace headscope::sparse_model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

bool HasGpu() {
  kernels::CudaDeviceInfo info;
  return kernels::QueryCudaDevice(0, &info).ok();
}

class OnGpu {
 public:
  explicit OnGpu(const SequenceData& data) : data_(data) {
    Upload(data.q, &q_);
    Upload(data.k, &k_);
    Upload(data.v, &v_);
  }

  PassOutput Attend(MethodAttention& backend, int64_t first, int64_t rows, bool of_prompt,
                    bool wants_lse = true) const {
    return Attend(
        [&](model::AttentionCall call) {
          call.wants_lse = wants_lse;
          backend.Attend(call);
        },
        first, rows, of_prompt);
  }

  // The model's keys and values become those of another sequence, in the same place.
  void Replace(const SequenceData& by) const {
    EXPECT_TRUE(kernels::CopyToDevice(by.k.data(), static_cast<int64_t>(by.k.size()), k_.get()).ok());
    EXPECT_TRUE(kernels::CopyToDevice(by.v.data(), static_cast<int64_t>(by.v.size()), v_.get()).ok());
    EXPECT_TRUE(kernels::CopyToDevice(by.q.data(), static_cast<int64_t>(by.q.size()), q_.get()).ok());
  }

  PassOutput Attend(const std::function<void(const model::AttentionCall&)>& attend, int64_t first, int64_t rows,
                    bool of_prompt) const {
    const int64_t vectors = rows * data_.layer.num_qo_heads;
    std::vector<std::byte> o(static_cast<size_t>(vectors * data_.layer.v_head_dim * data_.ElementBytes()),
                             std::byte{0xff});
    PassOutput output;
    output.lse.resize(static_cast<size_t>(vectors), NAN);
    kernels::DeviceMemory device_o, device_lse;
    Upload(o, &device_o);
    EXPECT_TRUE(kernels::AllocateOnDevice(vectors * 4, "lse", &device_lse).ok());
    model::AttentionCall call = data_.Call(first, rows, of_prompt, q_.get(), k_.get(), v_.get());
    call.on_device = true;
    call.o = device_o.get();
    call.lse = static_cast<float*>(device_lse.get());
    attend(call);
    EXPECT_TRUE(kernels::CopyFromDevice(device_o.get(), static_cast<int64_t>(o.size()), o.data()).ok());
    EXPECT_TRUE(kernels::CopyFromDevice(device_lse.get(), vectors * 4, output.lse.data()).ok());
    output.o = Widened(o, data_.is_bf16);
    return output;
  }

 private:
  static void Upload(const std::vector<std::byte>& from, kernels::DeviceMemory* to) {
    EXPECT_TRUE(kernels::AllocateOnDevice(static_cast<int64_t>(from.size()), "a tensor", to).ok());
    EXPECT_TRUE(kernels::CopyToDevice(from.data(), static_cast<int64_t>(from.size()), to->get()).ok());
  }

  const SequenceData& data_;
  kernels::DeviceMemory q_, k_, v_;
};

// Numbers of the two: o to bf16's rounding or fp32's, lse alike.
void ExpectAlike(const SequenceData& data, const MethodChoice& choice, const std::string& name) {
  const auto host = AttendByMethods(choice), gpu = AttendByMethods(choice);
  const OnGpu on_gpu(data);
  const float tolerance = data.is_bf16 ? 2e-2f : 1e-3f;
  const auto pass = [&](int64_t first, int64_t rows, bool of_prompt) {
    const PassOutput expected = AttendOnHost(*host, data, first, rows, of_prompt);
    const PassOutput made = on_gpu.Attend(*gpu, first, rows, of_prompt);
    const std::string where = name + ", rows " + std::to_string(first) + " + " + std::to_string(rows);
    EXPECT_LE(LargestRelativeDifference(made.o, expected.o), tolerance) << where;
    EXPECT_LE(LargestDifference(made.lse, expected.lse), 2e-3f) << where;
  };
  const int64_t prompt = data.num_tokens - 8;
  pass(0, prompt - 70, true);
  pass(prompt - 70, 69, true);
  pass(prompt - 1, 1, true);
  for (int64_t step = 0; step < 4; ++step) pass(prompt + step, 1, false);
  // Another answer to the same prompt.
  host->Rewind(prompt - 1);
  gpu->Rewind(prompt - 1);
  pass(prompt - 1, 1, true);
  for (int64_t step = 0; step < 3; ++step) pass(prompt + step, 1, false);
  EXPECT_NEAR(static_cast<double>(gpu->Pairs().kept), static_cast<double>(host->Pairs().kept),
              0.01 * static_cast<double>(host->Pairs().kept))
      << name;
  EXPECT_EQ(gpu->Pairs().seen, host->Pairs().seen) << name;
}

struct Case {
  const char *prefill, *prefill_values, *decode, *decode_values;
};
constexpr Case kCases[] = {
    {"dense", "", "dense", ""},
    {"a-shape", "n_local=64,n_sink=4", "sliding-window", ""},
    {"vertical-slash", "", "h2o", "k=100"},
    {"streaming-llm", "", "sparq", "r=16,k=64"},
    {"moba", "", "snap-kv", "window=32,budget=96"},
};

TEST(GpuAttention, IsTheHosts) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  for (const Case& one : kCases) {
    for (const bool bf16 : {true, false}) {
      for (const int32_t head_dim : {64, 128}) {
        const SequenceData data(LayerOf(head_dim), 600, bf16, 11);
        ExpectAlike(
            data, Choose(one.prefill, one.prefill_values, one.decode, one.decode_values),
            std::string(one.prefill) + " and " + one.decode + (bf16 ? " bf16 " : " fp32 ") + std::to_string(head_dim));
      }
    }
  }
}

// Of a group, one head selects on the GPU and one on the CPU, from a copy of its own of their keys.
TEST(GpuAttention, HeadsHaveMethodsOfTheirOwn) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  std::vector<PrefillSetting> settings;
  for (const auto& [name, values] : {std::pair{"a-shape", "n_local=64,n_sink=4"}, std::pair{"vertical-slash", ""},
                                     std::pair{"moba", "block_size=64"}, std::pair{"moba", "block_size=64"}}) {
    const MethodChoice one = Choose(name, values, "dense", "");
    settings.push_back({one.prefill, one.prefill_values});
  }
  for (const bool bf16 : {true, false}) {
    for (const size_t shift : {0, 1, 2}) {
      const SequenceData data(LayerOf(64), 600, bf16, 31);
      MethodChoice choice = Choose("dense", "", "snap-kv", "window=32,budget=96");
      choice.prefill = nullptr;
      choice.prefill_of_head = [&](int32_t, int32_t head, int64_t) -> const PrefillSetting& {
        return settings[(static_cast<size_t>(head) + shift) % settings.size()];
      };
      ExpectAlike(data, choice, "a mixture from " + std::to_string(shift));
    }
  }
}

TEST(GpuAttention, KeepsToTheWindowOfALayer) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  model::AttentionLayer layer = LayerOf(64);
  layer.window = 100;
  for (const Case& one : {kCases[0], kCases[1], kCases[3]}) {
    const SequenceData data(layer, 500, /*bf16=*/true, 12);
    ExpectAlike(data, Choose(one.prefill, one.prefill_values, one.decode, one.decode_values), one.prefill);
  }
}

TEST(GpuAttention, TheTracesLogSumExpCountsEveryKey) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  MethodChoice choice = Choose("a-shape", "n_local=32,n_sink=4", "sparq", "k=16");
  choice.trace_lse = true;
  for (const bool bf16 : {true, false})
    ExpectAlike(SequenceData(LayerOf(64), 300, bf16, 13), choice, bf16 ? "bf16" : "fp32");
}

TEST(GpuAttention, SaysWhatSelectsOnTheCpu) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  const SequenceData data(LayerOf(64), 200, /*bf16=*/true, 14);
  const OnGpu on_gpu(data);
  const auto notes = [&](const Case& one) {
    const auto backend = AttendByMethods(Choose(one.prefill, one.prefill_values, one.decode, one.decode_values));
    on_gpu.Attend(*backend, 0, 198, true);
    on_gpu.Attend(*backend, 198, 1, false);
    on_gpu.Attend(*backend, 199, 1, false);
    return backend->Notes();
  };
  EXPECT_THAT(notes(kCases[0]), IsEmpty());
  EXPECT_THAT(notes(kCases[1]), IsEmpty());
  EXPECT_THAT(notes({"vertical-slash", "", "sparq", ""}),
              ElementsAre("sparq selects on the CPU: its GPU kernel leaves no log-sum-exp"));
  EXPECT_THAT(notes({"vertical-slash", "", "sparq", "temperature=one"}),
              ElementsAre("sparq selects on the CPU: it has no GPU kernel for these values"));
  EXPECT_THAT(notes({"vertical-slash", "", "quest", "dense_layers=0"}), IsEmpty());
  EXPECT_THAT(notes({"vertical-slash", "", "snap-kv", ""}),
              ElementsAre("snap-kv selects on the CPU: it has no GPU kernel"));
  EXPECT_THAT(notes({"moba", "", "dense", ""}), ElementsAre(HasSubstr("moba selects on the CPU: it has no selector")));
}

// A reason that names a number which grows with the tokens is told once.
TEST(GpuAttention, SaysOnceWhyALayerSelectsOnTheCpu) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  const SequenceData data(LayerOf(64), 1104, /*bf16=*/true, 15);
  const OnGpu on_gpu(data);
  const auto backend = AttendByMethods(Choose("dense", "", "sparq", "k=2048"));
  on_gpu.Attend(*backend, 0, 1100, true, false);
  for (int64_t step = 1100; step < 1104; ++step) on_gpu.Attend(*backend, step, 1, false, false);
  EXPECT_THAT(backend->Notes(), ElementsAre(HasSubstr("sparq selects on the CPU: num_tokens 1101")));
}

// Steps of methods that choose where the model runs, over what they keep there, beside the same method on the host.
// Nothing is copied to the host for them, and nothing selects there.
struct ChoosingCase {
  const char *decode, *values;
  bool needs_no_lse;  // its step leaves none
};
constexpr ChoosingCase kChoosing[] = {{"sparq", "r=16,k=64,reallocate=0", true},
                                      {"sparq", "r=16,k=64,reallocate=1", true},
                                      {"quest", "budget=96,page_size=16,dense_layers=0", false},
                                      {"quest", "budget=90,page_size=7,keep_newest=0,dense_layers=0", false}};

// A backend on the GPU beside one on the host.
class Both {
 public:
  Both(const ChoosingCase& one, const SequenceData& data)
      : one_(one),
        host_(AttendByMethods(Choose("dense", "", one.decode, one.values))),
        gpu_(AttendByMethods(Choose("dense", "", one.decode, one.values))),
        on_gpu_(data),
        data_(&data) {}

  void Pass(int64_t first, int64_t rows, bool of_prompt) {
    const PassOutput expected = AttendOnHost(*host_, *data_, first, rows, of_prompt);
    const PassOutput made = on_gpu_.Attend(*gpu_, first, rows, of_prompt, !one_.needs_no_lse);
    EXPECT_LE(LargestRelativeDifference(made.o, expected.o), 2e-2f) << first << " + " << rows;
    if (one_.needs_no_lse) return;
    EXPECT_LE(LargestDifference(made.lse, expected.lse), 2e-3f) << first << " + " << rows;
  }
  void Steps(int64_t first, int64_t count) {
    for (int64_t step = first; step < first + count; ++step) Pass(step, 1, false);
  }
  void Rewind(int64_t num_tokens) {
    host_->Rewind(num_tokens);
    gpu_->Rewind(num_tokens);
  }
  // The pass behind so many tokens failed.
  void Abandon(int64_t num_tokens) {
    host_->Abandon(num_tokens);
    gpu_->Abandon(num_tokens);
  }
  void Replace(const SequenceData& by) {
    on_gpu_.Replace(by);
    data_ = &by;
  }
  void ExpectSamePairs() const {
    EXPECT_EQ(gpu_->Pairs().seen, host_->Pairs().seen);
    EXPECT_NEAR(static_cast<double>(gpu_->Pairs().kept), static_cast<double>(host_->Pairs().kept),
                1e-3 * static_cast<double>(host_->Pairs().kept));
    EXPECT_THAT(gpu_->Notes(), IsEmpty()) << "nothing selected on the CPU";
  }

 private:
  const ChoosingCase one_;
  std::unique_ptr<MethodAttention> host_, gpu_;
  const OnGpu on_gpu_;
  const SequenceData* data_;
};

TEST(GpuAttention, ChoosesWhereTheModelRuns) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  for (const ChoosingCase& one : kChoosing) {
    for (const int32_t head_dim : {64, 128}) {
      SCOPED_TRACE(std::string(one.decode) + ":" + one.values + ", " + std::to_string(head_dim));
      const SequenceData data(LayerOf(head_dim), 600, /*bf16=*/true, 41);
      Both both(one, data);
      both.Pass(0, 530, true);
      both.Steps(530, 20);
      both.ExpectSamePairs();
    }
  }
}

// What is kept is that of the tokens that are there: of another answer to the same prompt, of a prompt that goes on, of
// a pass that failed and comes again with another token, and of another sequence in the same place.
TEST(GpuAttention, WhatAStepKeepsFollowsTheModelsCache) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  for (const ChoosingCase& one : kChoosing) {
    SCOPED_TRACE(std::string(one.decode) + ":" + one.values);
    const SequenceData data(LayerOf(64), 600, /*bf16=*/true, 42), other(LayerOf(64), 600, /*bf16=*/true, 43);
    SequenceData changed = data;  // in one token
    for (int64_t head = 0; head < 2; ++head) {
      for (auto [to, from] : {std::pair{&changed.k, &other.k}, std::pair{&changed.v, &other.v}})
        std::copy_n(from->begin() + (head * 600 + 478) * 128, 128, to->begin() + (head * 600 + 478) * 128);
    }
    Both both(one, data);
    both.Pass(0, 400, true);
    both.Steps(400, 5);
    both.Rewind(400);
    both.Steps(400, 5);
    both.Rewind(0);
    both.Replace(other);
    both.Pass(0, 400, true);
    both.Steps(400, 5);
    both.Pass(405, 60, false);  // tokens that nobody announced
    both.Steps(465, 5);
    both.Rewind(467);
    both.Steps(467, 8);
    both.Rewind(0);
    both.Replace(data);
    both.Pass(0, 475, true);  // as many tokens as there were
    both.Steps(475, 4);
    both.Abandon(478);
    both.Replace(changed);
    both.Steps(478, 4);
    // A shorter prompt.
    both.Rewind(0);
    both.Replace(other);
    both.Pass(0, 70, true);
    both.Steps(70, 4);
    // As many tokens of another sequence, which came while another backend attended.
    both.Rewind(0);
    both.Replace(data);
    both.Steps(74, 3);
  }
}

TEST(GpuAttention, ChoosesInTheWindowOfALayer) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  model::AttentionLayer layer = LayerOf(64);
  layer.window = 200;
  for (const ChoosingCase& one : kChoosing) {
    SCOPED_TRACE(std::string(one.decode) + ":" + one.values);
    const SequenceData data(layer, 300, /*bf16=*/true, 44);
    Both both(one, data);
    both.Pass(0, 195, true);
    both.Steps(195, 10);  // the window moves
    both.Pass(205, 60, false);
    both.Steps(265, 5);
    both.ExpectSamePairs();
  }
}

// A trace's log-sum-exp counts every key: that of the step is not needed.
TEST(GpuAttention, ChoosesThereForATrace) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  const SequenceData data(LayerOf(64), 300, /*bf16=*/true, 45);
  const OnGpu on_gpu(data);
  MethodChoice choice = Choose("dense", "", "sparq", "k=16");
  choice.trace_lse = true;
  const auto backend = AttendByMethods(choice);
  on_gpu.Attend(*backend, 0, 290, true);
  for (int64_t step = 290; step < 294; ++step) on_gpu.Attend(*backend, step, 1, false);
  EXPECT_THAT(backend->Notes(), IsEmpty());
  ExpectAlike(data, choice, "a trace");
}

TEST(GpuAttention, TakesSinksAndValuesOfAnotherHeadDim) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  model::AttentionLayer layer = LayerOf(64);
  for (int32_t head = 0; head < layer.num_qo_heads; ++head) layer.sinks.push_back(static_cast<float>(head) - 1.0f);
  for (const auto& [v_head_dim, window] : {std::pair{48, 0}, {64, 100}}) {
    layer.v_head_dim = v_head_dim;
    layer.window = window;
    for (const bool bf16 : {true, false}) {
      const SequenceData data(layer, 500, bf16, 15);
      MethodChoice choice = Choose("a-shape", "n_local=64,n_sink=4", "sparq", "r=16,k=64,reallocate=0");
      choice.trace_lse = bf16;  // the lse of every key, on the GPU
      ExpectAlike(data, choice, bf16 ? "bf16" : "fp32");
      ExpectAlike(data, {}, bf16 ? "dense, bf16" : "dense, fp32");
    }
  }
}

// Passes of a sequence by the executor beneath the default backend; what it does not take it leaves as it was.
TEST(GpuAttention, OwnDenseIsTheHosts) {
  kernels::CudaDeviceInfo info;
  if (!kernels::QueryCudaDevice(0, &info).ok()) GTEST_SKIP() << "no usable GPU";
  const auto dense = OwnDense();
  const auto expect = [&](const model::AttentionLayer& layer, bool bf16, int64_t first, int64_t rows, bool taken,
                          const std::string& name) {
    const SequenceData data(layer, first + rows, bf16, 16);
    bool attended = false;
    const PassOutput made = OnGpu(data).Attend(
        [&](const model::AttentionCall& call) { attended = dense->Attend(call); }, first, rows, true);
    EXPECT_EQ(attended, taken) << name;
    if (!attended) {
      EXPECT_TRUE(std::ranges::all_of(made.o, [](float value) { return std::isnan(value); })) << name;
      return;
    }
    const auto host = AttendByMethods({});
    const PassOutput expected = AttendOnHost(*host, data, first, rows, true);
    EXPECT_LE(LargestRelativeDifference(made.o, expected.o), 2e-2f) << name;
    EXPECT_LE(LargestDifference(made.lse, expected.lse), 2e-3f) << name;
  };
  const bool fast = info.compute_capability == 90;  // which has the fast kernel
  for (const int32_t head_dim : {64, 128}) {
    expect(LayerOf(head_dim), true, 0, 700, fast, "a prompt");
    expect(LayerOf(head_dim), true, 333, 512, fast, "behind others");
  }
  model::AttentionLayer layer = LayerOf(64);
  for (int32_t head = 0; head < layer.num_qo_heads; ++head) layer.sinks.push_back(static_cast<float>(head) - 1.0f);
  expect(layer, true, 100, 600, fast, "sinks");
  layer.soft_cap = 20;
  expect(layer, true, 100, 600, fast, "sinks and a cap");
  layer.window = 900;
  expect(layer, true, 100, 600, fast, "a window that hides nothing");
  layer.window = 300;
  expect(layer, true, 100, 600, false, "a window");
  expect(LayerOf(64), true, 600, 511, false, "few rows");
  expect(LayerOf(64), false, 0, 600, false, "fp32");
  expect(LayerOf(72), true, 0, 600, false, "a head_dim that the fast kernel does not take");
  layer = LayerOf(192);
  layer.v_head_dim = 128;
  expect(layer, true, 100, 600, fast, "values of another size");
  layer = LayerOf(64);
  layer.sinks.assign(static_cast<size_t>(layer.num_qo_heads), -HUGE_VALF);
  expect(layer, true, 0, 600, false, "heads without a sink among those that have one");
  layer = LayerOf(64);
  layer.causal = false;
  expect(layer, true, 0, 600, false, "rows that see later keys");
}

// Layers lie on GPUs of their own, pass after pass, and LibTorch's current one may be any.
TEST(GpuAttention, OwnDenseKeepsToTheGpuOfEachLayer) {
  kernels::CudaDeviceInfo info;
  if (!kernels::QueryCudaDevice(1, &info).ok()) GTEST_SKIP() << "this machine has no second GPU";
  if (info.compute_capability != 90) GTEST_SKIP() << "the second GPU has no fast kernel";
  const SequenceData data(LayerOf(64), 700, /*bf16=*/true, 17);
  const auto host = AttendByMethods({});
  const PassOutput expected = AttendOnHost(*host, data, 0, 700, true);
  const auto dense = OwnDense();
  for (const int32_t gpu : {0, 1, 0, 1}) {
    kernels::CudaDeviceScope scope;
    ASSERT_TRUE(scope.Enter(gpu).ok());
    const int32_t other = 1 - gpu;
    int after = -1;
    const PassOutput made = OnGpu(data).Attend(
        [&](const model::AttentionCall& call) {
          model::AttentionCall there = call;
          there.device_ordinal = gpu;
          ASSERT_TRUE(kernels::UseCudaDevice(other).ok());
          EXPECT_TRUE(dense->Attend(there));
          ASSERT_EQ(cudaGetDevice(&after), cudaSuccess);
          ASSERT_TRUE(kernels::UseCudaDevice(gpu).ok());
        },
        0, 700, true);
    EXPECT_EQ(after, other);
    EXPECT_LE(LargestRelativeDifference(made.o, expected.o), 2e-2f) << gpu;
    EXPECT_LE(LargestDifference(made.lse, expected.lse), 2e-3f) << gpu;
  }
}

TEST(GpuAttention, RefusesWhatTheExecutorsDoNotTake) {
  if (!HasGpu()) GTEST_SKIP() << "no usable GPU";
  const SequenceData data(LayerOf(264), 64, /*bf16=*/true, 15);
  const OnGpu on_gpu(data);
  const auto backend = AttendByMethods({});
  EXPECT_THAT([&] { on_gpu.Attend(*backend, 0, 64, true); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("dense in layer 0"), HasSubstr("head_dim is 264"))));
}

}  // namespace
}  // namespace headscope::sparse_model
