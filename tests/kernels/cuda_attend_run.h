// SPDX-License-Identifier: Apache-2.0
// One attention problem on the GPU for the executors' tests: random tensors with gaps, an index, NaN wherever no row
// reads, poisoned outputs with guards around them, and the comparison with float64.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "cuda_lists.h"
#include "device_array.h"
#include "kernels/cuda_executor.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::testing {

enum class Executor { kAuto, kSimple };

struct AttendCase {
  Pattern pattern;
  int32_t seq_q;
  int32_t seq_k;  // 0: seq_q
  int32_t batch = 1;
  int32_t num_qo_heads = 2;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 128;
  int32_t v_head_dim = 0;  // 0: head_dim
  DType dtype = DType::kBFloat16;
  ElementRule rule = {MaskKind::kCausal, 0, 0};
  int32_t tile_rows = 128;
  float scale = 0.0f;
  float soft_cap = 0.0f;
  Executor executor = Executor::kAuto;
  float highest_sink = 0.0f;  // > 0: heads have sinks, the highest this, the lowest its negative
  bool unpromised = false;    // the executor is not told where every head keeps everything
};
std::string NameOf(const AttendCase& c);
// Behind the cases in which every head keeps everything, each once more with an executor that is not told.
void AppendUnpromised(std::vector<AttendCase>* cases);
void PrintTo(const AttendCase& c, std::ostream* out);

class AttendRun {
 public:
  // Q interleaves its heads ([batch, row, head, dim]); K, V and O are [batch, head, row, dim]; rows of all four have a
  // gap behind them, heads of O have guard rows. Fails the test where memory or the index is refused.
  void Make(const AttendCase& c, uint32_t seed);

  // From now on calls ask for the rows' largest scores as well, and the checks below look at them.
  void AskForRowMax() { with_row_max_ = true; }

  // Poisons the outputs, attends and waits.
  Status Attend(Executor executor, cudaStream_t stream = nullptr, bool with_lse = true);
  // The same without a wait; outputs stay as they are.
  Status Launch(Executor executor, cudaStream_t stream, bool with_lse = true) const;
  void Poison();

  // The outputs as they are now, gaps and guards included.
  std::vector<char> DownloadO() const;
  std::vector<float> DownloadLse() const;     // with kGuardLse values at either end
  std::vector<float> DownloadRowMax() const;  // likewise

  // All rows of a small problem, else some of every kind of tile, against float64. Allowed: relative L2 of 5e-3 (bf16),
  // 1e-3 (fp16) or 1e-5 (fp32) over all rows and twice that in the worst 64-row tile of a head; LSE to 2e-3,
  // largest scores to twice that.
  void ExpectFloat64() const;
  // The same with the tensors of `expected`, a problem of this shape, and other bounds.
  void ExpectFloat64Of(const AttentionProblem& expected, double allowed_l2, double allowed_lse) const;
  // Every row was written, and nothing else; of the LSE and the largest scores nothing before the first and behind the
  // last, and nothing at all of the latter if nobody asked.
  void ExpectGuards() const;

  // Relative L2 between the rows of two outputs of this problem.
  double RelativeL2(const std::vector<char>& measured, const std::vector<char>& expected) const;

  const AttentionProblem& problem() const { return problem_; }
  AttentionOutput output(bool with_lse = true) const;
  const SparseIndexView& index() const { return device_index_.view; }
  const SparseIndex& host_index() const { return host_index_; }

  static constexpr int64_t kGuardLse = 64;

 private:
  void MakeTensor(int64_t rows, int32_t dim, float deviation, uint64_t seed, DeviceMemory* memory);
  void HideUnread();
  // Of rows of `dim` components, without the gap behind them and with it.
  int64_t RowBytes(int32_t dim) const { return dim * SizeOf(problem_.dtype); }
  int64_t PitchBytes(int32_t dim) const;
  int64_t OutputPitch() const { return PitchBytes(problem_.ValueDim()); }
  int64_t NumHeads() const { return int64_t{problem_.batch} * problem_.num_qo_heads; }
  int64_t OutputRows() const;
  // Numbers of rows: a number each, with guards.
  size_t RowNumbers() const { return static_cast<size_t>(NumHeads() * problem_.seq_q + 2 * kGuardLse); }
  void MakeRowNumbers(DeviceMemory* memory) const;
  std::vector<float> DownloadRowNumbers(const DeviceMemory& memory) const;
  // Row `row` of head `head` (counted over all sequences) in a downloaded O.
  const char* RowOf(const std::vector<char>& o, int64_t head, int64_t row) const {
    return o.data() + (head * OutputRows() + row) * OutputPitch();
  }

  AttentionProblem problem_;
  std::vector<float> sinks_;
  SparseIndex host_index_;
  CudaIndexBuffers device_index_;
  DeviceMemory q_, k_, v_, o_, lse_, row_max_;
  bool with_row_max_ = false;
};

}  // namespace headscope::kernels::testing
