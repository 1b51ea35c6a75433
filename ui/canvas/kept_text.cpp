// SPDX-License-Identifier: Apache-2.0
#include "kept_text.h"

#include <algorithm>
#include <iterator>

#include "analysis/types/map_words.h"
#include "analysis/types/number_text.h"

namespace headscope::ui {

using analysis::Format;

std::string DescribeSteps(const CanvasModel& model, const analysis::KeptSteps& kept) {
  return analysis::DescribeSteps(kept, model.trace().num_decode_rows);
}

std::string DescribeChoice(const CanvasModel& model, const LiveMask& mask) {
  if (!mask.chosen_per) return {};
  const TraceSummary& trace = model.trace();
  std::vector<int32_t> group = {model.head()->head};
  for (size_t i = 0; i < trace.heads.size(); ++i) {
    if (trace.heads[i].layer == model.head()->layer && trace.kv_head_of_head[i] == model.kv_head())
      group.push_back(trace.heads[i].head);
  }
  return analysis::DescribeChoice(*mask.chosen_per, group);
}

std::string DescribeCra(const LiveMask& mask) {
  return analysis::DescribeCra(mask.summary, std::ssize(mask.kept_mass), mask.steps != nullptr);
}

std::string DescribeOutside(const LiveMask& mask) {
  return analysis::DescribeOutsideMass(mask.outside_mass);
}

std::vector<std::string> DescribeLive(const analysis::LiveRun& run, bool is_decode) {
  const char* const unit = is_decode ? "one step" : "one run";
  const bool is_sampled = run.checked_attend_ms > 0;
  std::string times = run.device.is_gpu() ? "on " + run.device.name + ", " : std::string();
  times += Format("%s %.3g ms", unit, run.attend_ms);
  if (is_sampled)
    times += Format("; of %s sampled queries, on one core, %.3g ms", Grouped(run.checked_rows).c_str(),
                    run.checked_attend_ms);
  if (run.dense_attend_ms > 0) {
    const double own_ms = is_sampled ? run.checked_attend_ms : run.attend_ms;
    times += Format(", dense %.3g ms (%.1f×)", run.dense_attend_ms, run.dense_attend_ms / own_ms);
  }
  if (run.rounds > 1) times += Format(", medians of %d in turn", run.rounds);
  if (run.dense_times == 1 && run.dense_age_s >= 1) times += Format(", timed %.0f s ago", run.dense_age_s);
  if (run.dense_times > 1)
    times += Format(", the median of %d times in %.0f s", run.dense_times, std::max(1.0, run.dense_age_s));
  std::string error = Format("relative error %.2e, max %.2e", run.relative_error, run.max_error);
  if (run.checked_rows < run.num_rows) error += ", of " + Grouped(run.checked_rows) + " sampled queries";
  std::vector<std::string> lines = {run.is_timed() ? times : "timed when the map is drawn …", error};
  if (!run.note.empty()) lines.push_back("on the CPU: " + run.note);
  return lines;
}

std::string HelpOnLive(bool is_decode) {
  const std::string what =
      "with what the mask keeps, and compares the output with dense attention's. A change cancels the run before. "
      "Times are taken when the map is drawn";
  if (is_decode) {
    return "Attends on the CPU " + what +
           ", each step's in turn with dense attention's, which are those of the faster of headscope's and LibTorch's. "
           "Run measures them properly.";
  }
  return "Attends " + what +
         ". Where a GPU holds the head's numbers exactly, the method attends there, timed in turn with dense attention "
         "by the GPU's own clock. Else it attends on the CPU, once or a few times: of a short head dense attention is "
         "timed in turn with it, of a longer one the median of dense attention's last few times counts, of half a "
         "minute at most. Run measures them properly.";
}

std::string DescribeKeepsEverything(int64_t num_tokens) {
  return "These parameters keep everything at " + Grouped(num_tokens) + " tokens.";
}

std::string DescribeDenseLayer(const analysis::MaskSummary& summary) {
  return summary.method + " leaves layer " + std::to_string(summary.head.layer) + " dense. With " + summary.dense_by +
         " at 0 it chooses there, too.";
}

std::string DescribeMeasured(const analysis::MethodResult& result) {
  const bool decode = result.phase == kernels::Phase::kDecode;
  std::string text = ScopeText(result.head, result.measured) + " on " + result.device.name +
                     (decode ? ", per decode step" : "") + ", dense by " + result.baseline + ", ";
  if (result.attend.repeats == 1) {
    text += "1 repeat";
  } else {
    text += "median ± deviation of " + Grouped(result.attend.repeats) + " repeats";
    if (result.asked_repeats > 0 && result.attend.repeats > result.asked_repeats) {
      text +=
          Format(" (short runs go on after %d, so that other programs do not decide the median)", result.asked_repeats);
    }
  }
  if (!result.parameters.empty()) text += ", " + result.parameters;
  if (decode && result.chosen_per) text += ", chosen per " + std::string(NameOf(*result.chosen_per));
  return text;
}

}  // namespace headscope::ui
