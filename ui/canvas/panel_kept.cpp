// SPDX-License-Identifier: Apache-2.0
// The panel's middle: what the method keeps, of how much mass, and of which queries.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "kept_text.h"
#include "live_panel.h"
#include "panel_widgets.h"
#include "run_queue.h"

namespace headscope::ui {

namespace {

constexpr int kPlotBins = 160;
constexpr float kBetweenFigures = 12;  // pixels

}  // namespace

void LivePanel::DrawKept(CanvasModel& model) {
  MethodTrial& trial = model.trial();
  bool overlay = model.settings().overlay;
  const auto show = [this, &model](bool on) {
    model.settings().overlay = on;
    SettingsChanged();
  };
  if (ImGui::Checkbox("Show what it keeps", &overlay)) show(overlay);
  MarkStop({"overlay", {}, [show, overlay] { show(!overlay); }, {}});
  if (!overlay) return;
  bool lost = model.settings().lost;
  const auto color_lost = [this, &model](bool on) {
    model.settings().lost = on;
    SettingsChanged();
  };
  if (ImGui::Checkbox("Colour what is left out", &lost)) color_lost(lost);
  HelpTooltip("The attention that the method loses, in the map's colours; what it keeps is grey.");
  MarkStop({"lost", {}, [color_lost, lost] { color_lost(!lost); }, {}});
  const std::string grey = model.settings().lost ? "grey: kept" : "grey: left out";
  ImGui::TextDisabled("%s   %s", grey.c_str(),
                      trial.is_decode() ? "below the map: kept keys" : "hatched: keys after the query");
  if (!trial.mask_error().empty()) ProblemText(trial.mask_error());
  if (!trial.mask()) {
    if (trial.mask_pending()) ImGui::TextDisabled("selecting …");
    return;
  }
  // Numbers of the parameters before stay, dimmed, until the new ones are there.
  if (trial.mask_pending()) ImGui::PushStyleVar(ImGuiStyleVar_Alpha, kDimmed);
  DrawKeptNumbers(model, *trial.mask());
  DrawMassPlot(*trial.mask());
  if (trial.mask_pending()) ImGui::PopStyleVar();
}

void LivePanel::DrawLive(CanvasModel& model) {
  if (!model.settings().overlay) return;  // there is no mask to run
  const MethodTrial& trial = model.trial();
  bool follows = model.settings().live_runs;
  const auto follow = [this, &model](bool on) {
    model.settings().live_runs = on;
    SettingsChanged();
  };
  if (ImGui::Checkbox("Run it at every change", &follows)) follow(follows);
  HelpTooltip(HelpOnLive(trial.is_decode()));
  MarkStop({"live", {}, [follow, follows] { follow(!follows); }, {}});
  if (!follows) return;
  if (!trial.live_error().empty()) ProblemText(trial.live_error());
  if (!trial.live()) {
    if (trial.live_pending()) ImGui::TextDisabled("running …");
    if (trial.live_waits()) ImGui::TextDisabled("waits for the measurement …");
    return;
  }
  const bool outdated = !trial.is_live_present();
  if (outdated) ImGui::PushStyleVar(ImGuiStyleVar_Alpha, kDimmed);
  ImGui::BeginGroup();
  for (const std::string& line : DescribeLive(*trial.live(), trial.is_decode())) WrappedText(line);
  ImGui::EndGroup();
  Mark("live_result");
  if (outdated) ImGui::PopStyleVar();
}

void LivePanel::DrawKeptNumbers(CanvasModel& model, const LiveMask& mask) {
  const bool is_cut = model.trace().first_token > 0;
  ImGui::Text("kept %.2f %% of the %s%s", 100 * mask.summary.kept_fraction, is_cut ? "cut's " : "",
              mask.steps ? "keys" : "scores");
  HelpTooltip(mask.steps ? "Keys that the steps read, of all that dense decode would read in the same steps."
                         : "Query-key pairs that are kept, of all that the model itself attends to.");
  ImGui::ProgressBar(static_cast<float>(mask.summary.kept_fraction), {-1, 6}, "");
  Mark("kept");
  DrawKeepsEverything(model, mask);
  if (const std::string outside = DescribeOutside(mask); !outside.empty()) {
    WrappedText(NoteInk(), outside);
    Mark("outside");
    HelpTooltip("This trace was cut from a longer one. No mask of the cut can keep that share.");
  }
  if (mask.steps) DrawSteps(model, mask);
  WrappedText(DescribeCra(mask));
  HelpTooltip(
      "Cumulative residual attention: the share of a query's attention that lies on the kept keys. 95 % of the queries "
      "keep at least the 5th percentile.");
  const char* const selecting = mask.steps ? "selected in %.2f ms per step" : "selected in %.2f ms";
  constexpr char kSelectHelp[] = "Timed once, alongside whatever else the window was doing; Run measures it properly.";
  if (mask.summary.kept_fraction >= 1) {  // what the masses of the queries differ by is rounding
    ImGui::Text(selecting, mask.summary.select_ms);
    HelpTooltip(kSelectHelp);
    return;
  }
  ImGui::Text("worst query %lld", static_cast<long long>(mask.summary.worst_row));
  HelpTooltip("The query that keeps the smallest share of its attention.");
  ImGui::SameLine();
  const auto go = [this] { actions_.go_to_worst(); };
  if (ImGui::SmallButton("go")) go();
  MarkStop({"worst", {}, go, {}});
  HelpTooltip("Go to the key on which this query loses most.");
  const std::string selected = analysis::Format(selecting, mask.summary.select_ms);
  ImGui::SameLine(0, kBetweenFigures);
  if (ImGui::GetContentRegionAvail().x < ImGui::CalcTextSize(selected.c_str()).x) ImGui::NewLine();
  ImGui::TextUnformatted(selected.c_str());
  HelpTooltip(kSelectHelp);
}

void LivePanel::DrawKeepsEverything(const CanvasModel& model, const LiveMask& mask) {
  // At most a pair in ten thousand left out: what follows would be figures of dense attention.
  constexpr double kEverything = 0.9999;
  const MethodTrial& trial = model.trial();
  if (mask.summary.kept_fraction < kEverything || trial.method() == nullptr || trial.method()->baseline) return;
  if (!mask.summary.dense_by.empty()) return WrappedText(NoteInk(), DescribeDenseLayer(mask.summary));
  WrappedText(NoteInk(), DescribeKeepsEverything(model.trace().num_tokens));
  if (trial.view() != MapView::kFirst || !HasBudget(*trial.method())) return;
  const auto fit = [this] { actions_.fit_trace(); };
  if (ImGui::SmallButton("Fit to this trace")) fit();
  MarkStop({"fit_trace", {}, fit, {}});
  HelpTooltip(
      "Find the cheapest parameters that keep the target mass on this head (Meet target). Ctrl+Z takes it back.");
}

void LivePanel::DrawSteps(const CanvasModel& model, const LiveMask& mask) {
  WrappedText(DescribeSteps(model, *mask.steps));
  const std::string choice = DescribeChoice(model, mask);
  if (!choice.empty()) WrappedText(choice);
  if (!choice.empty()) {
    HelpTooltip(
        "As in a run: the query heads of a KV head share one selection; with “this head alone”, the head has its own.");
  }
  const auto show = [this] { actions_.show_steps(); };
  if (ImGui::SmallButton("Zoom to these steps")) show();
  MarkStop({"steps", {}, show, {}});
}

void LivePanel::DrawMassPlot(const LiveMask& mask) {
  if (mask.kept_mass.empty()) return;
  // The least of each bin: the query that loses most must not hide.
  std::vector<float> bins(std::min<size_t>(kPlotBins, mask.kept_mass.size()));
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    const size_t begin = bin * mask.kept_mass.size() / bins.size();
    const size_t end = std::max(begin + 1, (bin + 1) * mask.kept_mass.size() / bins.size());
    bins[bin] = *std::min_element(mask.kept_mass.begin() + static_cast<std::ptrdiff_t>(begin),
                                  mask.kept_mass.begin() + static_cast<std::ptrdiff_t>(end));
  }
  ImGui::TextDisabled("kept mass per query, 0 to 1");
  ImGui::PlotLines("##kept_mass", bins.data(), static_cast<int>(bins.size()), 0, nullptr, 0.0f, 1.0f,
                   {ImGui::GetContentRegionAvail().x, 52});
  Mark("kept_mass");
}

}  // namespace headscope::ui
