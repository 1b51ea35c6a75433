// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "analysis/types/mass_distribution.h"
#include "base/stopwatch.h"
#include "compare/mask_quality.h"
#include "compare/model_window.h"
#include "compare/selected_preview.h"
#include "head/head_checks.h"

namespace headscope::analysis {

namespace {

using kernels::Status;

// What PreviewMask tells of an index of the head. sum_mass(view, &kept_mass) sums.
template <typename SumMass>
Status Describe(const HeadTensors& head, const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                std::shared_ptr<const kernels::SparseIndex> index, double select_ms, MaskPreview* preview,
                SumMass&& sum_mass) {
  MaskPreview result;
  if (Status status = sum_mass(index->View(), &result.kept_mass); !status.ok()) return status;
  const MassDistribution mass = DistributeMass(result.kept_mass);
  result.summary.head = head.id;
  result.summary.method = method.spec().name;
  result.summary.parameters = values.ToString(method.spec());
  result.summary.kept_fraction = KeptFraction(head, index->View());
  SetKeptMass(mass, &result.summary);
  result.summary.worst_row = head.row_positions[static_cast<size_t>(mass.worst_row)];
  result.summary.select_ms = select_ms;
  result.summary.dense_by = method.DenseBy(values, head.id.layer);
  result.index = std::move(index);
  result.window = head.window;
  *preview = std::move(result);
  return {};
}

Status SelectForPreview(const HeadTensors& head, const kernels::PrefillMethod& method,
                        const kernels::ParameterValues& values, int32_t num_threads, const std::stop_token& stop,
                        std::shared_ptr<const kernels::SparseIndex>* selected, double* select_ms) {
  if (Status status = CheckPrefillHead(head); !status.ok()) return status;
  auto index = std::make_shared<kernels::SparseIndex>();
  const Stopwatch watch;
  if (Status status = SelectOnHead(head, method, values, {num_threads, stop}, index.get()); !status.ok()) return status;
  *select_ms = watch.Milliseconds();
  *selected = std::move(index);
  return {};
}

}  // namespace

Status PreviewMask(const HeadTensors& head, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, int32_t num_threads, const std::stop_token& stop,
                   MaskPreview* preview) {
  std::shared_ptr<const kernels::SparseIndex> index;
  double select_ms = 0;
  if (Status status = SelectForPreview(head, method, values, num_threads, stop, &index, &select_ms); !status.ok())
    return status;
  return Describe(head, method, values, std::move(index), select_ms, preview,
                  [&](const kernels::SparseIndexView& view, std::vector<float>* mass) {
                    return KeptMass(head, view, num_threads, stop, mass);
                  });
}

Status PreviewMask(const HeadMass& mass_by_block, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, int32_t num_threads, const std::stop_token& stop,
                   MaskPreview* preview) {
  std::shared_ptr<const kernels::SparseIndex> index;
  double select_ms = 0;
  const HeadTensors& head = mass_by_block.head();
  if (Status status = SelectForPreview(head, method, values, num_threads, stop, &index, &select_ms); !status.ok())
    return status;
  return PreviewSelected(mass_by_block, method, values, std::move(index), select_ms, num_threads, stop, preview);
}

Status PreviewSelected(const HeadMass& mass_by_block, const kernels::PrefillMethod& method,
                       const kernels::ParameterValues& values, std::shared_ptr<const kernels::SparseIndex> index,
                       double select_ms, int32_t num_threads, const std::stop_token& stop, MaskPreview* preview) {
  return Describe(mass_by_block.head(), method, values, std::move(index), select_ms, preview,
                  [&](const kernels::SparseIndexView& view, std::vector<float>* mass) {
                    return mass_by_block.KeptMass(view, num_threads, stop, mass);
                  });
}

}  // namespace headscope::analysis
