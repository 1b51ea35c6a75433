// SPDX-License-Identifier: Apache-2.0
// The panel's lower part: a measured run, how far it is, and what it said.
#include <algorithm>

#include "analysis/types/number_text.h"
#include "kept_text.h"
#include "live_panel.h"
#include "panel_widgets.h"
#include "runs_model.h"

namespace headscope::ui {

namespace {

// Of the runs table's columns, those that say how the last run compares with dense.
constexpr RunsModel::Column kShown[] = {RunsModel::kSelect,   RunsModel::kAttend, RunsModel::kTotal,
                                        RunsModel::kSpeedup,  RunsModel::kKept,   RunsModel::kRelativeError,
                                        RunsModel::kMaxError, RunsModel::kCosine};

}  // namespace

void LivePanel::DrawRun(CanvasModel& model) {
  MethodTrial& trial = model.trial();
  if (trial.running()) {
    if (ImGui::Button("Cancel")) actions_.cancel_run();
    MarkStop({"cancel", {}, [this] { actions_.cancel_run(); }, {}});
    DrawProgress(trial.progress());
  } else {
    const bool possible = model.head().has_value();
    if (!possible) ImGui::BeginDisabled();
    if (ImGui::Button("Run")) actions_.run();
    MarkStop({"run", {}, [this] { actions_.run(); }, {}});
    HelpTooltip(!possible           ? "Unavailable: no head is open."
                : trial.is_decode() ? "Times dense decode and the method in turn, step by step. Dense is the "
                                      "faster of headscope's and LibTorch's. Short runs are repeated more often."
                                    : "Times dense and sparse attention in turn. Short runs are repeated more often.");
    if (!possible) ImGui::EndDisabled();
    ImGui::SameLine();
    ImGui::SetNextItemWidth(110);
    int repeats = model.settings().repeats;
    const auto set = [this, &model](int wanted) {
      model.settings().repeats = std::clamp(wanted, 1, kMaxRepeats);
      SettingsChanged();
    };
    if (ImGui::SliderInt("repeats", &repeats, 1, kMaxRepeats, "%d",
                         ImGuiSliderFlags_AlwaysClamp | ImGuiSliderFlags_Logarithmic)) {
      set(repeats);
    }
    HelpTooltip(analysis::Format(
        "At least this many. Runs that are over in a moment go on, up to %d times, so that what else the machine does "
        "just then does not decide the median.",
        analysis::kMostRepeats));
    MarkStop({"repeats",
              [set, repeats](int notches) { set(repeats + notches); },
              {},
              [set](bool last) { set(last ? kMaxRepeats : 1); }});
  }
  bool alone = model.settings().measures_alone;
  const auto measure_alone = [this, &model](bool wanted) {
    model.settings().measures_alone = wanted;
    SettingsChanged();
  };
  if (ImGui::Checkbox("this head alone", &alone)) measure_alone(alone);
  HelpTooltip(
      "Times this head by itself instead of its whole layer in one launch, as a model runs it. Errors and kept mass "
      "are this head's either way; a decode method then selects keys for this head instead of per KV head.");
  MarkStop({"alone", {}, [measure_alone, alone] { measure_alone(!alone); }, {}});
  // Below what starts a run, which stays in sight of a small panel.
  DrawLive(model);
  if (!trial.run_error().empty()) ProblemText(trial.run_error());
  DrawResult(trial);
}

void LivePanel::DrawProgress(const ProgressReport& progress) {
  ImGui::SameLine();
  ImGui::ProgressBar(progress.fraction >= 0 ? static_cast<float>(progress.fraction) : 0.0f, {-1, 0}, "");
  Mark("progress");
  WrappedText(progress.stage.empty() ? "waiting …" : progress.stage);
}

void LivePanel::DrawResult(const MethodTrial& trial) {
  if (!trial.result()) return;
  const analysis::MethodResult& result = *trial.result();
  // The numbers of another method or of other parameters stay for comparison, dimmed.
  const kernels::MethodSpec& present = *trial.method();
  const bool outdated = result.method != present.name || result.parameters != trial.values().ToString(present);
  if (outdated) ImGui::PushStyleVar(ImGuiStyleVar_Alpha, kDimmed);
  ImGui::BeginGroup();
  DrawResultTable(result);
  ImGui::EndGroup();
  Mark("result");
  if (outdated) ImGui::PopStyleVar();
  // A run ends below the fold of a small panel: what it said comes into sight once.
  if (results_shown_ != trial.num_results() && !ImGui::IsWindowAppearing()) ImGui::SetScrollHereY(1);
  results_shown_ = trial.num_results();
}

void LivePanel::DrawResultTable(const analysis::MethodResult& result) {
  if (!ImGui::BeginTable("numbers", 3, ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerV)) return;
  ImGui::TableSetupColumn("");
  const bool by_another = !result.baseline.empty() && result.baseline != analysis::kOwnImplementation;
  ImGui::TableSetupColumn(("dense" + (by_another ? ", " + result.baseline : std::string())).c_str());
  ImGui::TableSetupColumn(result.method.c_str());
  ImGui::TableHeadersRow();
  const analysis::MethodResult dense = DenseRunOf(result);
  for (const RunsModel::Column shown : kShown) {
    const RunColumn& column = RunColumns()[static_cast<size_t>(shown)];
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(column.title);
    HelpTooltip(column.help);
    for (const analysis::MethodResult* run : {&dense, &result}) {
      ImGui::TableNextColumn();
      ImGui::TextUnformatted(column.text(*run).toUtf8().constData());
    }
  }
  ImGui::EndTable();
  WrappedText(ImGui::GetColorU32(ImGuiCol_TextDisabled), DescribeMeasured(result));
  if (result.note.empty()) return;
  WrappedText(NoteInk(), "Note: " + result.note);
  Mark("note");
}

}  // namespace headscope::ui
