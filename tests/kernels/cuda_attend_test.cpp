// SPDX-License-Identifier: Apache-2.0
// The CUDA executors against a float64 reference on fresh random data. In every case: NaN in the keys and values that
// no row reads, poisoned outputs, guard values around them. Skipped without a GPU.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cuda_attend_run.h"
#include "kernels/cuda_executor.h"
#include "run_seed.h"
#include "support/gpu.h"

namespace headscope::kernels {
namespace {

using testing::AttendCase;
using testing::AttendRun;
using testing::Executor;
using testing::Pattern;
using testing::SeedFor;

constexpr ElementRule kCausal{MaskKind::kCausal, 0, 0};
constexpr ElementRule kNoMask{MaskKind::kNone, 0, 0};
constexpr ElementRule kWindow{MaskKind::kCausalWindow, 200, 10};

class CudaAttend : public ::testing::TestWithParam<AttendCase> {};

TEST_P(CudaAttend, MatchesFloat64) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(GetParam(), SeedFor(NameOf(GetParam()))));
  const Status status = run.Attend(GetParam().executor);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_NO_FATAL_FAILURE(run.ExpectFloat64());
  ASSERT_NO_FATAL_FAILURE(run.ExpectGuards());
}

// The same with the rows' largest scores, which other kernels write.
class CudaRowMax : public ::testing::TestWithParam<AttendCase> {};

TEST_P(CudaRowMax, MatchesFloat64) {
  SKIP_WITHOUT_GPU();
  AttendRun run;
  ASSERT_NO_FATAL_FAILURE(run.Make(GetParam(), SeedFor("row max " + NameOf(GetParam()))));
  run.AskForRowMax();
  const Status status = run.Attend(GetParam().executor);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_NO_FATAL_FAILURE(run.ExpectFloat64());
  ASSERT_NO_FATAL_FAILURE(run.ExpectGuards());
}

// Values of another head_dim than keys: the Hopper kernel's 192 with 128, and what the simple one takes.
void AppendUnequalDims(std::vector<AttendCase>* cases) {
  AttendCase latent{.pattern = Pattern::kDense, .seq_q = 0, .seq_k = 0, .head_dim = 192, .v_head_dim = 128};
  const auto add = [&](Pattern pattern, int32_t seq_q, int32_t seq_k, auto... changes) {
    AttendCase c = latent;
    c.pattern = pattern;
    c.seq_q = seq_q;
    c.seq_k = seq_k;
    (changes(&c), ...);
    cases->push_back(c);
  };
  const auto in_fp16 = [](AttendCase* c) { c->dtype = DType::kFloat16; };
  const auto capped = [](AttendCase* c) { c->soft_cap = 5.0f; };
  const auto of_64_rows = [](AttendCase* c) { c->tile_rows = 64; };
  const auto simply = [](AttendCase* c) { c->executor = Executor::kSimple; };
  const auto under = [](const ElementRule& rule) { return [&rule](AttendCase* c) { c->rule = rule; }; };
  const auto with_heads = [](int32_t heads, int32_t kv_heads) {
    return [=](AttendCase* c) {
      c->batch = 2;
      c->num_qo_heads = heads;
      c->num_kv_heads = kv_heads;
    };
  };
  for (const int32_t length : {1, 63, 64, 65, 127, 129, 770, 4096}) {
    for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kColumns, Pattern::kHoles}) {
      add(pattern, length, 0);
    }
  }
  for (const Pattern pattern :
       {Pattern::kShortRuns, Pattern::kHalves, Pattern::kOneKey, Pattern::kSomeEmpty, Pattern::kEmpty}) {
    add(pattern, 990, 0);
    add(pattern, 990, 0, of_64_rows);
  }
  for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kColumns, Pattern::kHoles}) {
    add(pattern, 770, 0, in_fp16);
    add(pattern, 490, 0, capped);
    add(pattern, 130, 770);
    add(pattern, 990, 0, of_64_rows);
  }
  add(Pattern::kRandom, 490, 0, in_fp16, capped);
  for (const ElementRule* rule : {&kCausal, &kNoMask, &kWindow}) {
    add(Pattern::kHalves, 490, 0, under(*rule));
    add(Pattern::kOverhang, 190, 770, under(*rule));
    add(Pattern::kOverhang, 190, 770, under(*rule), of_64_rows);
  }
  // Blocks take several items one after the other; the last ones have more than blocks are dealt: these are queued.
  add(Pattern::kRandom, 200, 0, with_heads(70, 70));
  for (const auto& [heads, kv_heads] : {std::pair{2, 2}, {4, 1}, {14, 2}, {16, 16}, {128, 128}}) {
    add(Pattern::kRandom, 600, 0, with_heads(heads, kv_heads));
  }
  add(Pattern::kOneKey, 600, 0, with_heads(128, 1));
  add(Pattern::kAllColumns, 490, 0);
  add(Pattern::kDense, 46341, 0);
  // Other shapes, and fp32, are the simple kernel's.
  for (const auto& [head_dim, v_head_dim] : {std::pair{192, 128}, {8, 256}, {256, 8}, {80, 136}}) {
    latent.head_dim = head_dim;
    latent.v_head_dim = v_head_dim;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      add(Pattern::kRandom, 400, 0, simply, [&](AttendCase* c) { c->dtype = dtype; });
    }
    add(Pattern::kHoles, 300, 490, simply);
  }
  latent.head_dim = 128;
  latent.v_head_dim = 64;
  add(Pattern::kRandom, 400, 0);
}

// Learned sinks: a term of every row's sum, of rows that keep nothing as well.
void AppendSinks(std::vector<AttendCase>* cases) {
  struct Sizes {
    int32_t head_dim, v_head_dim;
  };
  int turn = 0;
  for (const auto& [head_dim, v_head_dim] : {Sizes{64, 0}, {96, 0}, {128, 0}, {256, 0}, {192, 128}, {64, 48}}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
      for (const Pattern pattern :
           {Pattern::kDense, Pattern::kRandom, Pattern::kHoles, Pattern::kSomeEmpty, Pattern::kEmpty}) {
        AttendCase c{.pattern = pattern,
                     .seq_q = 490,
                     .seq_k = 0,
                     .num_qo_heads = 5,
                     .head_dim = head_dim,
                     .v_head_dim = v_head_dim,
                     .dtype = dtype};
        c.batch = turn % 3 == 0 ? 3 : 1;
        c.soft_cap = turn % 4 == 1 ? 5.0f : 0.0f;
        c.tile_rows = turn % 5 == 2 ? 64 : 128;
        c.rule = turn % 6 == 3 ? kWindow : kCausal;
        // fp16 has nothing below e^-16.
        c.highest_sink = dtype == DType::kFloat16 || turn % 2 == 0 ? 5.0f : 30.0f;
        cases->push_back(c);
        if (dtype != DType::kFloat32) {
          c.executor = Executor::kSimple;
          cases->push_back(c);
        }
        ++turn;
      }
    }
  }
  AttendCase many{
      .pattern = Pattern::kRandom, .seq_q = 600, .seq_k = 0, .batch = 2, .num_qo_heads = 128, .num_kv_heads = 16};
  many.highest_sink = 5.0f;
  cases->push_back(many);
}

// Heads of 64 components: items of 192 rows where all of them keep everything, queued.
void AppendWide(std::vector<AttendCase>* cases) {
  AttendCase wide{.pattern = Pattern::kDense,
                  .seq_q = 0,
                  .seq_k = 0,
                  .batch = 10,
                  .num_qo_heads = 128,
                  .num_kv_heads = 32,
                  .head_dim = 64};
  for (const int32_t length : {1, 63, 64, 65, 128, 191, 192, 193, 320, 513}) {
    wide.seq_q = length;
    cases->push_back(wide);
  }
  wide.dtype = DType::kFloat16;
  cases->push_back(wide);
  wide.highest_sink = 5.0f;
  cases->push_back(wide);
  wide.dtype = DType::kBFloat16;
  cases->push_back(wide);
  wide.highest_sink = 0.0f;
  for (const auto& [seq_q, seq_k] : {std::pair{130, 777}, {1, 500}, {300, 301}, {200, 384}}) {
    wide.seq_q = seq_q;
    wide.seq_k = seq_k;
    cases->push_back(wide);
  }
  // Other lists, other rules, and what the dense kernels do not know.
  wide.seq_q = 300;
  wide.seq_k = 0;
  for (const Pattern pattern : {Pattern::kRandom, Pattern::kSomeEmpty, Pattern::kColumns, Pattern::kHalves}) {
    wide.pattern = pattern;
    cases->push_back(wide);
  }
  wide.pattern = Pattern::kDense;
  wide.tile_rows = 64;
  cases->push_back(wide);
  wide.tile_rows = 128;
  wide.soft_cap = 5.0f;
  cases->push_back(wide);
  wide.soft_cap = 0.0f;
  for (const ElementRule& rule : {kNoMask, kWindow}) {
    wide.rule = rule;
    cases->push_back(wide);
  }
  wide = {.pattern = Pattern::kDense, .seq_q = 9000, .seq_k = 0, .num_qo_heads = 16, .num_kv_heads = 4, .head_dim = 64};
  cases->push_back(wide);
}

std::vector<AttendCase> Cases() {
  std::vector<AttendCase> cases;
  for (const int32_t length : {1, 63, 64, 65, 127, 1000, 4096}) {
    for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kColumns})
      cases.push_back({pattern, length, 0});
  }
  for (const Pattern pattern :
       {Pattern::kShortRuns, Pattern::kHalves, Pattern::kOneKey, Pattern::kSomeEmpty, Pattern::kEmpty}) {
    cases.push_back({pattern, 1000, 0});
  }
  for (const auto& [heads, kv_heads] : {std::pair{2, 2}, {4, 1}, {14, 2}, {16, 2}, {16, 1}}) {
    cases.push_back({.pattern = Pattern::kRandom,
                     .seq_q = 600,
                     .seq_k = 0,
                     .batch = 2,
                     .num_qo_heads = heads,
                     .num_kv_heads = kv_heads});
  }
  for (const ElementRule& rule : {kNoMask, kWindow}) {
    for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kShortRuns, Pattern::kHalves}) {
      cases.push_back({.pattern = pattern, .seq_q = 900, .seq_k = 0, .rule = rule});
    }
  }
  for (const Pattern pattern :
       {Pattern::kDense, Pattern::kRandom, Pattern::kHalves, Pattern::kColumns, Pattern::kSomeEmpty}) {
    cases.push_back({.pattern = pattern, .seq_q = 1000, .seq_k = 0, .tile_rows = 64});
    cases.push_back({.pattern = pattern, .seq_q = 130, .seq_k = 777});
  }
  cases.push_back({.pattern = Pattern::kRandom, .seq_q = 700, .seq_k = 0, .rule = kWindow, .tile_rows = 64});
  for (const int32_t head_dim : {64, 96, 128, 256}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      for (const Pattern pattern : {Pattern::kDense, Pattern::kRandom, Pattern::kColumns}) {
        cases.push_back({.pattern = pattern, .seq_q = 777, .seq_k = 0, .head_dim = head_dim, .dtype = dtype});
      }
    }
    cases.push_back({.pattern = Pattern::kHalves, .seq_q = 500, .seq_k = 0, .head_dim = head_dim, .rule = kWindow});
    cases.push_back({.pattern = Pattern::kRandom, .seq_q = 500, .seq_k = 0, .head_dim = head_dim, .soft_cap = 5.0f});
  }
  for (const int32_t head_dim : {8, 80, 128, 256}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      cases.push_back({.pattern = Pattern::kRandom,
                       .seq_q = 400,
                       .seq_k = 0,
                       .head_dim = head_dim,
                       .dtype = dtype,
                       .executor = Executor::kSimple});
    }
  }
  for (const Pattern pattern : {Pattern::kHalves, Pattern::kColumns, Pattern::kSomeEmpty, Pattern::kEmpty}) {
    cases.push_back({.pattern = pattern,
                     .seq_q = 300,
                     .seq_k = 500,
                     .rule = kWindow,
                     .tile_rows = 64,
                     .executor = Executor::kSimple});
  }
  // Windows of 128 keys with bits for what each half keeps; the keys that nobody names hold NaN.
  for (const int32_t length : {1, 64, 65, 127, 129, 500, 1023, 4096}) cases.push_back({Pattern::kHoles, length, 0});
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 130, .seq_k = 777});
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 1000, .seq_k = 20011});
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 700, .seq_k = 0, .soft_cap = 5.0f});
  for (const auto& [heads, kv_heads] : {std::pair{4, 1}, {14, 2}}) {
    cases.push_back({.pattern = Pattern::kHoles,
                     .seq_q = 600,
                     .seq_k = 0,
                     .batch = 2,
                     .num_qo_heads = heads,
                     .num_kv_heads = kv_heads});
  }
  for (const ElementRule& rule : {kCausal, kNoMask, kWindow}) {
    for (const int32_t tile_rows : {64, 128}) {
      cases.push_back({.pattern = Pattern::kHoles, .seq_q = 900, .seq_k = 0, .rule = rule, .tile_rows = tile_rows});
    }
  }
  for (const int32_t head_dim : {64, 96, 256}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      cases.push_back({.pattern = Pattern::kHoles, .seq_q = 777, .seq_k = 0, .head_dim = head_dim, .dtype = dtype});
    }
  }
  cases.push_back({.pattern = Pattern::kHoles, .seq_q = 400, .seq_k = 0, .executor = Executor::kSimple});
  AppendUnequalDims(&cases);
  AppendSinks(&cases);
  AppendWide(&cases);
  // What rows read of partial runs that reach past what they keep; the rest holds NaN, where no other row reads it.
  for (const ElementRule& rule : {kCausal, kNoMask, kWindow}) {
    for (const int32_t tile_rows : {64, 128}) {
      for (const auto& [seq_q, seq_k] : {std::pair{128, 0}, {100, 300}, {190, 777}, {70, 1000}}) {
        cases.push_back(
            {.pattern = Pattern::kOverhang, .seq_q = seq_q, .seq_k = seq_k, .rule = rule, .tile_rows = tile_rows});
      }
      cases.push_back({.pattern = Pattern::kDense, .seq_q = 130, .seq_k = 777, .rule = rule, .tile_rows = tile_rows});
      cases.push_back({.pattern = Pattern::kHalves, .seq_q = 130, .seq_k = 777, .rule = rule, .tile_rows = tile_rows});
    }
  }
  cases.push_back({.pattern = Pattern::kOverhang,
                   .seq_q = 190,
                   .seq_k = 777,
                   .rule = kWindow,
                   .tile_rows = 64,
                   .executor = Executor::kSimple});
  // Every key by itself.
  cases.push_back({.pattern = Pattern::kAllColumns, .seq_q = 500, .seq_k = 0});
  cases.push_back({.pattern = Pattern::kAllColumns, .seq_q = 100, .seq_k = 3000, .tile_rows = 64});
  // Scales, caps, and both: scores far below the cap, about it and far above.
  for (const Executor executor : {Executor::kAuto, Executor::kSimple}) {
    for (const float scale : {0.01f, 0.3f}) {
      cases.push_back({.pattern = Pattern::kRandom, .seq_q = 400, .seq_k = 0, .scale = scale, .executor = executor});
    }
    for (const float cap : {5.0f, 50.0f, 1e3f, 1e5f}) {
      for (const float scale : {0.0f, 1.0f}) {
        cases.push_back({.pattern = Pattern::kRandom,
                         .seq_q = 400,
                         .seq_k = 0,
                         .scale = scale,
                         .soft_cap = cap,
                         .executor = executor});
      }
    }
  }
  // 46,341 is the first length whose square does not fit 32 bits.
  for (const int32_t length : {46341, 131072}) {
    cases.push_back({Pattern::kDense, length, 0});
    cases.push_back({Pattern::kRandom, length, 0});
    cases.push_back({.pattern = Pattern::kColumns, .seq_q = 1000, .seq_k = length});
  }
  testing::AppendUnpromised(&cases);
  return cases;
}

// A kernel that writes them is not another one where the executor knows that every head keeps everything, and long
// lengths say nothing more about it, while their references take most of this program's time.
std::vector<AttendCase> RowMaxCases() {
  std::vector<AttendCase> cases = Cases();
  std::erase_if(cases, [](const AttendCase& c) { return c.unpromised || c.seq_q > 1000 || c.seq_k > 5000; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Table, CudaRowMax, ::testing::ValuesIn(RowMaxCases()), [](const auto& parameter) {
  return std::to_string(parameter.index) + "_" + NameOf(parameter.param);
});

INSTANTIATE_TEST_SUITE_P(Table, CudaAttend, ::testing::ValuesIn(Cases()), [](const auto& parameter) {
  return std::to_string(parameter.index) + "_" + NameOf(parameter.param);
});

}  // namespace
}  // namespace headscope::kernels
