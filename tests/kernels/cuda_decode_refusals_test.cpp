// SPDX-License-Identifier: Apache-2.0
// Decode calls that must be refused before anything is launched. No GPU is needed: arguments are looked at first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda_decode.h"
#include "kernels/cuda_executor.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using ::testing::HasSubstr;

// Sound arguments, with pointers into memory that no call may touch.
struct Arguments {
  Arguments() {
    problem.batch = 2;
    problem.num_qo_heads = 4;
    problem.num_kv_heads = 2;
    problem.head_dim = 128;
    problem.seq_q = 1;
    problem.seq_k = 100;
    problem.first_position = 99;
    problem.dtype = DType::kBFloat16;
    problem.q = {At(0), 4 * 128, 128, 128};
    problem.k = {At(1), 2 * 100 * 128, 100 * 128, 128};
    problem.v = {At(2), 2 * 100 * 128, 100 * 128, 128};
    output.o = {At(3), 4 * 128, 128, 128};
    transposed = {At(4), 2 * 128 * 104, 128 * 104, 104};
    mean_value = reinterpret_cast<float*>(At(5));
    workspace = At(6);
  }

  void* At(size_t slot) { return memory + 256 * slot; }

  alignas(256) char memory[7 * 256] = {};
  AttentionProblem problem;
  AttentionOutput output;
  SparqCudaOptions options;
  TransposedKeys transposed;
  float* mean_value = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = size_t{1} << 30;
  int32_t first_token = 50;
};

// An update of many tokens wants what one of a token does.
enum Call {
  kDense = 1,
  kSparq = 2,
  kAppend = 4,
  kUpdate = 8,
  kAttends = kDense | kSparq,
  kAll = kDense | kSparq | kAppend
};

constexpr float kSinks[] = {0, 1, 2, 3}, kNanSinks[] = {0, 1, std::numeric_limits<float>::quiet_NaN(), 3};

struct Breach {
  std::string name;
  int calls;  // that must refuse it
  std::function<void(Arguments*)> make;
  std::string message;  // a part of what is said
  StatusCode code = StatusCode::kInvalidArgument;
};

void PrintTo(const Breach& breach, std::ostream* out) {
  *out << breach.name;
}

void* Moved(const void* pointer, int bytes) {
  return const_cast<char*>(static_cast<const char*>(pointer)) + bytes;
}

std::vector<Breach> Breaches() {
  using A = Arguments*;
  return {
      {"seq_q", kAll, [](A a) { a->problem.seq_q = 2; }, "seq_q 2"},
      {"seq_k", kAll, [](A a) { a->problem.seq_k = 0; }, "seq_k is 0"},
      {"batch", kAll, [](A a) { a->problem.batch = 0; }, "batch is 0"},
      {"position", kAll, [](A a) { a->problem.first_position = 0; }, "first_position 0"},
      {"heads", kAll, [](A a) { a->problem.num_qo_heads = 3; }, "num_qo_heads is 3"},
      {"head_dim", kAll, [](A a) { a->problem.head_dim = 96; }, "head_dim 96", StatusCode::kUnsupported},
      {"v_head_dim", kAll, [](A a) { a->problem.v_head_dim = 64; },
       "v_head_dim 64: the CUDA decode executor takes head_dim (128)", StatusCode::kUnsupported},
      {"fp32", kAll, [](A a) { a->problem.dtype = DType::kFloat32; }, "dtype fp32", StatusCode::kUnsupported},
      {"lists", kAll, [](A a) { a->problem.batch = 40000; }, "batch * num_kv_heads 80000", StatusCode::kUnsupported},
      {"negative_scale", kAll, [](A a) { a->problem.scale = -1; }, "scale is -1"},
      {"nan_scale", kAll, [](A a) { a->problem.scale = std::nanf(""); }, "scale is nan"},
      {"negative_cap", kAll, [](A a) { a->problem.soft_cap = -1; }, "soft_cap is -1"},
      {"window", kSparq | kAppend, [](A a) { a->problem.window = 50; }, "window is 50", StatusCode::kUnsupported},
      {"negative_window", kAll, [](A a) { a->problem.window = -1; }, "window is -1"},
      {"sparq_sinks", kSparq, [](A a) { a->problem.sinks = kSinks; }, "sinks", StatusCode::kUnsupported},
      {"nan_sink", kAll, [](A a) { a->problem.sinks = kNanSinks; }, "sinks[2] is nan"},
      {"sparq_cap", kSparq, [](A a) { a->problem.soft_cap = 30; }, "soft_cap", StatusCode::kUnsupported},
      {"no_q", kAttends, [](A a) { a->problem.q.data = nullptr; }, "q.data is null"},
      {"no_k", kAll, [](A a) { a->problem.k.data = nullptr; }, "k.data is null"},
      {"no_v", kAll, [](A a) { a->problem.v.data = nullptr; }, "v.data is null"},
      {"no_o", kAttends, [](A a) { a->output.o.data = nullptr; }, "output.o.data is null"},
      {"odd_q", kAttends, [](A a) { a->problem.q.data = Moved(a->problem.q.data, 8); }, "q.data is 0x"},
      {"odd_k", kAll, [](A a) { a->problem.k.data = Moved(a->problem.k.data, 2); }, "k.data is 0x"},
      {"odd_v", kAll, [](A a) { a->problem.v.data = Moved(a->problem.v.data, 8); }, "v.data is 0x"},
      {"odd_o", kAttends, [](A a) { a->output.o.data = Moved(a->output.o.data, 1); }, "output.o.data is 0x"},
      {"odd_lse", kAttends, [](A a) { a->output.lse = static_cast<float*>(Moved(a->At(3), 2)); }, "output.lse is 0x"},
      {"odd_row_max", kAttends, [](A a) { a->output.row_max = static_cast<float*>(Moved(a->At(3), 1)); },
       "output.row_max is 0x"},
      {"sparq_row_max", kSparq, [](A a) { a->output.row_max = static_cast<float*>(a->At(3)); },
       "output.row_max is set: SparQ's launch leaves no largest scores", StatusCode::kUnsupported},
      {"short_rows", kAll, [](A a) { a->problem.k.row_stride = 64; }, "k.row_stride 64: it must be at least 128"},
      {"crooked_rows", kAll, [](A a) { a->problem.v.row_stride = 132; },
       "v.row_stride 132: it must be a multiple of 8"},
      {"short_heads", kAll, [](A a) { a->problem.k.head_stride = 0; }, "k.head_stride 0"},
      {"short_sequences", kAll, [](A a) { a->problem.v.batch_stride = -256; }, "v.batch_stride -256"},
      {"crooked_q", kAttends, [](A a) { a->problem.q.head_stride = 129; }, "q.head_stride 129"},
      {"heads_of_o", kAttends, [](A a) { a->output.o.head_stride = 64; },
       "output.o.head_stride is 64: rows of the output would overlap"},
      {"sequences_of_o", kAttends, [](A a) { a->output.o.batch_stride = 128; },
       "output.o.batch_stride is 128: rows of the output would overlap"},
      {"rank_0", kSparq, [](A a) { a->options.rank = 0; }, "rank 0"},
      {"rank_129", kSparq, [](A a) { a->options.rank = 129; }, "rank 129"},
      {"tokens_0", kSparq, [](A a) { a->options.num_tokens = 0; }, "num_tokens 0"},
      {"tokens_1025", kSparq, [](A a) { a->options.num_tokens = 1025; }, "num_tokens 1025"},
      {"local", kSparq, [](A a) { a->options.num_local = -1; }, "num_local -1"},
      {"more_local", kSparq, [](A a) { a->options.num_local = 129; },
       "num_local 129: it must be at most num_tokens (128)"},
      {"dtype", kAll, [](A a) { a->problem.dtype = static_cast<DType>(7); }, "dtype is 7"},
      {"no_mean", kSparq, [](A a) { a->mean_value = nullptr; }, "mean_value is null"},
      {"odd_mean", kSparq | kAppend, [](A a) { a->mean_value = static_cast<float*>(Moved(a->mean_value, 2)); },
       "mean_value is 0x"},
      {"odd_transposed", kSparq | kAppend, [](A a) { a->transposed.data = Moved(a->transposed.data, 4); },
       "transposed.data is 0x"},
      {"short_components", kSparq | kAppend, [](A a) { a->transposed.component_stride = 96; },
       "transposed.component_stride 96: it must be at least 104"},
      {"no_components", kSparq | kAppend, [](A a) { a->transposed.component_stride = 0; },
       "transposed.component_stride 0"},
      {"crooked_components", kSparq | kAppend, [](A a) { a->transposed.component_stride = 107; },
       "transposed.component_stride 107"},
      {"transposed_heads", kSparq | kAppend, [](A a) { a->transposed.head_stride = 127 * 104; },
       "transposed.head_stride 13208"},
      {"transposed_sequences", kSparq | kAppend, [](A a) { a->transposed.batch_stride = 8; },
       "transposed.batch_stride 8"},
      {"nothing_to_append", kAppend,
       [](A a) {
         a->transposed.data = nullptr;
         a->mean_value = nullptr;
       },
       "both null"},
      {"first_token_below", kUpdate, [](A a) { a->first_token = -1; }, "first_token -1: it must lie in 0 .. seq_k - 1"},
      {"first_token_above", kUpdate, [](A a) { a->first_token = 100; }, "first_token 100: it must lie in 0"},
      {"no_workspace", kUpdate, [](A a) { a->workspace = nullptr; }, "bytes are needed (UpdateSparqWorkspaceBytes)"},
      {"small_workspace", kUpdate, [](A a) { a->workspace_bytes = 2 * 2 * 2 * 128 * 4 - 1; },
       "workspace: 4096 bytes are needed"},
      {"odd_workspace", kUpdate, [](A a) { a->workspace = Moved(a->workspace, 16); }, "workspace is 0x"},
  };
}

class CudaDecodeRefusals : public ::testing::TestWithParam<Breach> {
 protected:
  void SetUp() override {}
};

TEST_P(CudaDecodeRefusals, NameTheField) {
  const Breach& breach = GetParam();
  Arguments a;
  breach.make(&a);
  const auto check = [&](int call, const char* name, const Status& status) {
    if ((breach.calls & call) == 0) return;
    EXPECT_EQ(status.code(), breach.code) << name << ": " << status.message();
    EXPECT_THAT(status.message(), HasSubstr(breach.message)) << name;
  };
  if (breach.calls & kDense)
    check(kDense, "dense", DecodeDenseCuda(a.problem, a.output, a.workspace, a.workspace_bytes, nullptr));
  if (breach.calls & kSparq) {
    check(kSparq, "sparq",
          DecodeSparqCuda(a.problem, a.options, a.transposed, a.mean_value, a.output, nullptr, a.workspace,
                          a.workspace_bytes, nullptr));
  }
  if (breach.calls & kAppend) check(kAppend, "append", AppendTokenCuda(a.problem, a.transposed, a.mean_value, nullptr));
  if (breach.calls & (kAppend | kUpdate)) {
    const Status status =
        UpdateSparqCuda(a.problem, a.first_token, a.transposed, a.mean_value, a.workspace, a.workspace_bytes, nullptr);
    check(breach.calls & (kAppend | kUpdate), "update", status);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, CudaDecodeRefusals, ::testing::ValuesIn(Breaches()),
                         [](const auto& at) { return at.param.name; });

// Strides over a single element are never used, so whatever stands there is nobody's mistake. What these calls are
// refused for is the workspace, which is looked at last.
TEST(CudaDecodeArguments, UnusedStridesAreFree) {
  SKIP_WITHOUT_GPU();  // its properties decide the workspace's size
  Arguments a;
  a.problem.batch = 1;
  a.problem.num_qo_heads = a.problem.num_kv_heads = 1;
  a.problem.seq_k = 1;
  a.problem.first_position = 0;
  a.problem.q = {a.At(0), -1, 3, 5};
  a.problem.k = {a.At(1), -1, 3, 5};
  a.problem.v = {a.At(2), -1, 3, 5};
  a.output.o = {a.At(3), -1, 3, 5};
  EXPECT_THAT(DecodeDenseCuda(a.problem, a.output, a.workspace, 0, nullptr).message(), HasSubstr("bytes are needed"));
  EXPECT_THAT(DecodeDenseCuda(a.problem, a.output, Moved(a.workspace, 16), a.workspace_bytes, nullptr).message(),
              HasSubstr("workspace is 0x"));
}

}  // namespace
}  // namespace headscope::kernels
