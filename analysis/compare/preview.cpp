// SPDX-License-Identifier: Apache-2.0
#include "analysis/compare.h"
#include "analysis/types/mass_distribution.h"
#include "base/stopwatch.h"
#include "compare/mask_quality.h"
#include "compare/model_window.h"
#include "head/head_checks.h"

namespace headscope::analysis {

namespace {

using kernels::Status;

template <typename SumMass>
Status Preview(const HeadTensors& head, const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
               int32_t num_threads, const std::stop_token& stop, MaskPreview* preview, SumMass&& sum_mass) {
  if (Status status = CheckPrefillHead(head); !status.ok()) return status;
  auto index = std::make_shared<kernels::SparseIndex>();
  const Stopwatch watch;
  if (Status status = SelectOnHead(head, method, values, {num_threads, stop}, index.get()); !status.ok()) return status;
  const double select_ms = watch.Milliseconds();
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

}  // namespace

Status PreviewMask(const HeadTensors& head, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, int32_t num_threads, const std::stop_token& stop,
                   MaskPreview* preview) {
  return Preview(head, method, values, num_threads, stop, preview,
                 [&](const kernels::SparseIndexView& index, std::vector<float>* mass) {
                   return KeptMass(head, index, num_threads, stop, mass);
                 });
}

Status PreviewMask(const HeadMass& mass_by_block, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, int32_t num_threads, const std::stop_token& stop,
                   MaskPreview* preview) {
  return Preview(mass_by_block.head(), method, values, num_threads, stop, preview,
                 [&](const kernels::SparseIndexView& index, std::vector<float>* mass) {
                   return mass_by_block.KeptMass(index, num_threads, stop, mass);
                 });
}

}  // namespace headscope::analysis
