// SPDX-License-Identifier: Apache-2.0
#include "map_interaction.h"

#include <algorithm>
#include <cmath>

#include "imgui.h"

namespace headscope::ui {

namespace {

constexpr double kZoomPerNotch = 1.25;
constexpr double kDoubleClickZoom = 4;
constexpr double kLeastSelection = 4;  // pixels; less is a click

// Whether the pointer stayed where `button` went down.
bool StayedAtPress(int button) {
  return static_cast<double>(ImGui::GetIO().MouseDragMaxDistanceSqr[button]) < kLeastSelection * kLeastSelection;
}

}  // namespace

void MapInteraction::Cancel() {
  panning_ = in_minimap_ = false;
  selection_.reset();
}

bool MapInteraction::Update(ViewTransform& view, const MapSurroundings& around) {
  const ImGuiIO& io = ImGui::GetIO();
  const double x = static_cast<double>(io.MousePos.x), y = static_cast<double>(io.MousePos.y);
  const bool over_map = ImGui::IsMousePosValid() && view.viewport().Contains(x, y) && !io.WantCaptureMouse;
  const ViewTransform before = view;
  clicked_ = menu_wanted_ = double_clicked_ = false;
  pressed_ = ImGui::IsMouseClicked(ImGuiMouseButton_Left) && !ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  const bool free = ImGui::IsMousePosValid() && !io.WantCaptureMouse && !dragging();
  const bool pressed = free && ImGui::IsMouseClicked(ImGuiMouseButton_Left);
  pressed_column_x_ = pressed && around.column_profile.Contains(x, y) ? std::optional(x) : std::nullopt;
  pressed_row_y_ = pressed && around.row_profile.Contains(x, y) ? std::optional(y) : std::nullopt;
  const auto pin =
      std::find_if(around.pins.begin(), around.pins.end(), [&](const PixelRect& one) { return one.Contains(x, y); });
  pointed_pin_.reset();
  if (over_map && !dragging() && pin != around.pins.end())
    pointed_pin_ = static_cast<size_t>(pin - around.pins.begin());
  pin_pressed_ = pressed && pointed_pin_ && !io.KeyShift;
  const bool over_minimap = over_map && around.minimap.Contains(x, y);
  if (over_minimap && pressed) in_minimap_ = true;
  if (in_minimap_ && !ImGui::IsMouseDown(ImGuiMouseButton_Left)) in_minimap_ = false;
  if (in_minimap_ && ImGui::IsMousePosValid() && around.minimap.width > 0 && around.minimap.height > 0) {
    const double row = (y - around.minimap.y) / around.minimap.height * static_cast<double>(view.num_rows());
    const double column = (x - around.minimap.x) / around.minimap.width * static_cast<double>(view.num_columns());
    view.CenterOn(row, column, view.scores_per_pixel());
  }

  if (over_map && io.MouseWheel != 0) {
    const double notches = static_cast<double>(io.MouseWheel) * (io.KeyCtrl ? 0.25 : io.KeyShift ? 3.0 : 1.0);
    view.ZoomAbout(x, y, std::pow(kZoomPerNotch, notches));
  }
  if (over_map && !over_minimap && !dragging() && !pin_pressed_) {
    const bool left = ImGui::IsMouseClicked(ImGuiMouseButton_Left);
    const bool right = ImGui::IsMouseClicked(ImGuiMouseButton_Right);
    if (left && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
      view.ZoomAbout(x, y, kDoubleClickZoom);
      double_clicked_ = true;
    } else if (right || (left && io.KeyShift)) {
      selection_button_ = right ? ImGuiMouseButton_Right : ImGuiMouseButton_Left;
      selection_x_ = x;
      selection_y_ = y;
      selection_ = PixelRect{x, y, 0, 0};
    } else if (left || ImGui::IsMouseClicked(ImGuiMouseButton_Middle)) {
      panning_ = true;
      panning_button_ = left ? ImGuiMouseButton_Left : ImGuiMouseButton_Middle;
    }
  }
  if (panning_) {
    if (!ImGui::IsMouseDown(panning_button_)) {
      panning_ = false;
      clicked_ = over_map && panning_button_ == ImGuiMouseButton_Left && StayedAtPress(panning_button_);
    } else if (ImGui::IsMousePosValid()) {
      view.Pan(static_cast<double>(io.MouseDelta.x), static_cast<double>(io.MouseDelta.y));
    }
  }
  if (selection_) {
    const PixelRect& map = view.viewport();
    const double end_x = std::clamp(x, map.x, map.right()), end_y = std::clamp(y, map.y, map.bottom());
    if (ImGui::IsMousePosValid()) {
      selection_ = PixelRect{std::min(selection_x_, end_x), std::min(selection_y_, end_y),
                             std::abs(end_x - selection_x_), std::abs(end_y - selection_y_)};
    }
    if (!ImGui::IsMouseDown(selection_button_)) {
      const PixelRect box = *selection_;
      selection_.reset();
      if (box.width >= kLeastSelection && box.height >= kLeastSelection) {
        view.ZoomTo(
            {view.YToRow(box.y), view.YToRow(box.bottom()), view.XToColumn(box.x), view.XToColumn(box.right())});
      } else {
        menu_wanted_ = over_map && selection_button_ == ImGuiMouseButton_Right && StayedAtPress(ImGuiMouseButton_Right);
      }
    }
  }
  return view != before;
}

}  // namespace headscope::ui
