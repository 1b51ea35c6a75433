// SPDX-License-Identifier: Apache-2.0
#include "compare/model_window.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "head/head_checks.h"
#include "kernels/index_window.h"
#include "kernels/prompt_passes.h"
#include "kernels/several_settings.h"

namespace headscope::analysis {

bool WindowHides(const HeadFrame& frame) {
  return frame.window > 0 && !frame.row_positions.empty() && frame.row_positions.back() >= frame.window;
}

int64_t AttendedPairs(const HeadFrame& frame) {
  int64_t pairs = 0;
  for (int64_t row = 0; row < frame.num_rows; ++row) {
    const kernels::ColumnRange attended = frame.AttendedColumns(row);
    pairs += std::max(0, attended.end - attended.begin);
  }
  return pairs;
}

double KeptFraction(const HeadFrame& frame, const kernels::SparseIndexView& index) {
  const int64_t attended = AttendedPairs(frame);
  return attended == 0 ? 0.0 : static_cast<double>(CountPairs(index).kept) / static_cast<double>(attended);
}

kernels::Status SelectInside(const HeadFrame& frame, const kernels::AttentionProblem& problem,
                             const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                             const kernels::RunOptions& options, kernels::SparseIndex* index) {
  kernels::SparseIndex chosen;
  const kernels::ParameterValues of_prompt = kernels::AtPromptLength(method, values, frame.prompt_tokens);
  if (kernels::Status status = method.Select(problem, of_prompt, options, &chosen); !status.ok()) return status;
  *index = WindowHides(frame) ? kernels::CutToWindow(chosen.View(), frame.window) : std::move(chosen);
  return {};
}

kernels::Status SelectOnHead(const HeadTensors& head, const kernels::PrefillMethod& method,
                             const kernels::ParameterValues& values, const kernels::RunOptions& options,
                             kernels::SparseIndex* index) {
  if (kernels::Status status = CheckPrefillHead(head); !status.ok()) return status;
  return SelectInside(head, head.Problem(), method, values, options, index);
}

kernels::Status SelectEachOnHead(const HeadTensors& head, const kernels::PrefillMethod& method,
                                 std::span<const kernels::ParameterValues> settings, const kernels::RunOptions& options,
                                 const EachIndex& each) {
  if (kernels::Status status = CheckPrefillHead(head); !status.ok()) return status;
  const auto* const several = dynamic_cast<const kernels::SelectsSeveral*>(&method);
  if (several == nullptr) {
    for (size_t i = 0; i < settings.size(); ++i) {
      kernels::SparseIndex index;
      kernels::Status status = SelectInside(head, head.Problem(), method, settings[i], options, &index);
      if (status.ok()) status = each(i, std::move(index));
      if (!status.ok()) return status;
    }
    return {};
  }
  std::vector<kernels::ParameterValues> of_prompt;
  for (const kernels::ParameterValues& values : settings)
    of_prompt.push_back(kernels::AtPromptLength(method, values, head.prompt_tokens));
  std::vector<kernels::SparseIndex> made(settings.size());
  if (kernels::Status status = several->SelectEach(head.Problem(), of_prompt, options, &made); !status.ok())
    return status;
  for (size_t i = 0; i < made.size(); ++i) {
    kernels::SparseIndex index = std::move(made[i]);
    if (WindowHides(head)) index = kernels::CutToWindow(index.View(), head.window);
    if (kernels::Status status = each(i, std::move(index)); !status.ok()) return status;
  }
  return {};
}

}  // namespace headscope::analysis
