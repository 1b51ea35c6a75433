// The panel's middle: what the method keeps, of how much mass, and of which queries.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "live_panel.h"
#include "map_overlay.h"
#include "panel_widgets.h"

namespace headscope::ui {

namespace {

constexpr int kPlotBins = 160;
constexpr float kBetweenFigures = 12;  // pixels

}  // namespace

std::string DescribeSteps(const CanvasModel& model, const analysis::KeptSteps& kept) {
  const auto count = static_cast<int64_t>(kept.steps.size());
  const int64_t recorded = model.trace().num_decode_rows;
  std::array<char, 160> text{};
  const int first = kept.steps.front().position, last = kept.steps.back().position;
  if (recorded == 0) {
    std::snprintf(text.data(), text.size(), "no decode steps in this trace: on its last %lld queries, %d to %d",
                  static_cast<long long>(count), first, last);
  } else if (count < recorded) {
    std::snprintf(text.data(), text.size(), "on the newest %lld of %lld decode steps, queries %d to %d",
                  static_cast<long long>(count), static_cast<long long>(recorded), first, last);
  } else {
    std::snprintf(text.data(), text.size(), "on the trace's %lld decode steps, queries %d to %d",
                  static_cast<long long>(count), first, last);
  }
  return text.data();
}

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
  ImGui::TextDisabled(trial.is_decode() ? "grey: left out   below the map: kept keys"
                                        : "grey: left out   hatched: keys after the query");
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

void LivePanel::DrawKeptNumbers(CanvasModel& model, const LiveMask& mask) {
  ImGui::Text(mask.steps ? "kept %.2f %% of the keys" : "kept %.2f %% of the scores", 100 * mask.summary.kept_fraction);
  HelpTooltip(mask.steps ? "Keys that the steps read, of all that dense decode would read in the same steps."
                         : "Pairs of a query and a key that are kept, of all that the model itself attends to.");
  ImGui::ProgressBar(static_cast<float>(mask.summary.kept_fraction), {-1, 6}, "");
  Mark("kept");
  if (mask.steps) DrawSteps(model, mask);
  ImGui::Text("CRA  min %.3f   p5 %.3f   mean %.3f", mask.summary.cra_min, mask.summary.cra_p5, mask.summary.cra_mean);
  HelpTooltip(
      "Cumulative residual attention: the share of a query's attention that lies on what is kept; the least, the fifth "
      "percentile (p5: 95 % of them keep more) and the mean over the recorded queries, or over the steps.");
  const char* const selecting = mask.steps ? "chosen in %.2f ms a step" : "selected in %.2f ms";
  constexpr char kSelectHelp[] = "Timed once, beside whatever else the window did: Run measures it.";
  if (mask.summary.kept_fraction >= 1) {  // what the masses of the queries differ by is rounding
    ImGui::Text(selecting, mask.summary.select_ms);
    HelpTooltip(kSelectHelp);
    return;
  }
  ImGui::Text("worst query %lld", static_cast<long long>(mask.summary.worst_row));
  HelpTooltip("The query that keeps the least of its attention.");
  ImGui::SameLine(0, kBetweenFigures);
  ImGui::Text(selecting, mask.summary.select_ms);
  HelpTooltip(kSelectHelp);
  ImGui::SameLine();
  const auto go = [this] { actions_.go_to_worst(); };
  if (ImGui::SmallButton("go")) go();
  MarkStop({"worst", {}, go, {}});
  HelpTooltip("To the key that this query loses most of.");
}

void LivePanel::DrawSteps(const CanvasModel& model, const LiveMask& mask) {
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(DescribeSteps(model, *mask.steps).c_str());
  ImGui::PopTextWrapPos();
  const auto show = [this] { actions_.show_steps(); };
  if (ImGui::SmallButton("Zoom to them")) show();
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
  ImGui::TextDisabled("kept mass by query, 0 to 1");
  ImGui::PlotLines("##kept_mass", bins.data(), static_cast<int>(bins.size()), 0, nullptr, 0.0f, 1.0f,
                   {ImGui::GetContentRegionAvail().x, 52});
  Mark("kept_mass");
}

}  // namespace headscope::ui
