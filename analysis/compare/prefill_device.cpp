// SPDX-License-Identifier: Apache-2.0
#include "compare/prefill_device.h"

#include <utility>

#include "analysis/types/timing.h"
#include "compare/head_union.h"
#include "compare/model_window.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

class CpuPrefill final : public PrefillDevice {
 public:
  CpuPrefill(MeasuredHeadsPtr heads, const CompareOptions& options) : heads_(std::move(heads)), options_(options) {}

  const NamedDevice& where() const override { return where_; }
  kernels::AttentionProblem Problem() const override { return heads_->Problem(); }
  void StopBy(std::stop_token stop) override { options_.stop = std::move(stop); }

  Status Prepare(const kernels::PrefillMethod& method, const kernels::ParameterValues& values, PrefillRun* run,
                 std::unique_ptr<PrefillWork>* work) override {
    run->o.resize(heads_->OutputSize());
    double select_ms = 0, attend_ms = 0;
    if (Status status = SelectAndAttend(method, values, &run->index, run->o.data(), &select_ms, &attend_ms);
        !status.ok())
      return status;
    run->select_device = where_;
    run->note = IncompleteUnion(method.spec(), values, *heads_, run->index.View());
    *work = std::make_unique<Work>(*this, method, values);
    return {};
  }

 private:
  class Work final : public PrefillWork {
   public:
    Work(CpuPrefill& device, const kernels::PrefillMethod& method, const kernels::ParameterValues& values)
        : device_(device), method_(method), values_(values) {}
    Status Once(double* select_ms, double* attend_ms) override {
      kernels::SparseIndex index;
      device_.dropped_.resize(device_.heads_->OutputSize());
      return device_.SelectAndAttend(method_, values_, &index, device_.dropped_.data(), select_ms, attend_ms);
    }

   private:
    CpuPrefill& device_;
    const kernels::PrefillMethod& method_;
    const kernels::ParameterValues& values_;
  };

  // o: [num_qo_heads, num_rows, v_head_dim]
  Status SelectAndAttend(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                         kernels::SparseIndex* index, float* o, double* select_ms, double* attend_ms) const {
    if (Status status = SelectTimed(*heads_, method, values, options_, index, select_ms); !status.ok()) return status;
    kernels::AttentionOutput output;
    output.o = kernels::ContiguousTensor<void>(o, heads_->num_qo_heads, heads_->num_rows, heads_->ValueDim());
    const Stopwatch watch;
    Status status = kernels::AttendCpu(Problem(), index->View(), output, {options_.num_threads, options_.stop});
    *attend_ms = watch.Milliseconds();
    return status;
  }

  const MeasuredHeadsPtr heads_;
  CompareOptions options_;
  const NamedDevice where_ = NamedCpu();
  std::vector<float> dropped_;  // outputs of timed runs
};

}  // namespace

Status SelectTimed(const MeasuredHeads& heads, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, const CompareOptions& options, kernels::SparseIndex* index,
                   double* milliseconds) {
  const Stopwatch watch;
  Status status = SelectInside(heads, heads.Problem(), method, values, {options.num_threads, options.stop}, index);
  *milliseconds = watch.Milliseconds();
  return status;
}

Status MakePrefillDevice(MeasuredHeadsPtr heads, const CompareOptions& options, std::unique_ptr<PrefillDevice>* made) {
  if (options.device.is_gpu()) return MakeGpuPrefill(std::move(heads), options, made);
  *made = std::make_unique<CpuPrefill>(std::move(heads), options);
  return {};
}

}  // namespace headscope::analysis
