// SPDX-License-Identifier: Apache-2.0
// What is drawn over the map stands out from its ground, in a light window as in a dark one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "overlay_drawing.h"
#include "panel_widgets.h"

namespace headscope::ui {
namespace {

// WCAG 2.1: what a colour of the draw list, which may let the ground through, gives on a ground.
double Luminance(ImU32 ink, const analysis::Rgb& ground) {
  const double alpha = (ink >> IM_COL32_A_SHIFT & 0xff) / 255.0;
  const auto light = [&](int shift, int below) {
    const double share = (alpha * (ink >> shift & 0xff) + (1 - alpha) * below) / 255;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * light(IM_COL32_R_SHIFT, ground.red) + 0.7152 * light(IM_COL32_G_SHIFT, ground.green) +
         0.0722 * light(IM_COL32_B_SHIFT, ground.blue);
}

double ContrastOf(ImU32 ink, const analysis::Rgb& ground) {
  const double one = Luminance(ink, ground) + 0.05, other = Luminance(IM_COL32(0, 0, 0, 0), ground) + 0.05;
  return std::max(one, other) / std::min(one, other);
}

TEST(OverlayInks, StandOutFromTheirGround) {
  ASSERT_NEAR(ContrastOf(IM_COL32(0, 0, 0, 255), {255, 255, 255}), 21, 1e-6);
  ASSERT_NEAR(ContrastOf(IM_COL32(0, 0, 0, 0), {255, 255, 255}), 1, 1e-6);
  for (const auto& [inks, ground] : {std::pair(kDarkGroundInks, analysis::kDarkGround.paper),
                                     std::pair(kLightGroundInks, analysis::kLightGround.paper)}) {
    for (const ImU32 ink : {inks.accent, inks.crosshair, inks.mark, inks.other_cursor})
      EXPECT_GE(ContrastOf(ink, ground), 3) << std::hex << ink << " on " << int{ground.red};
    for (const ImU32 ink : {inks.text, inks.dim}) EXPECT_GE(ContrastOf(ink, ground), 4.5) << std::hex << ink;
  }
  // The ring of the panel's keyboard focus, on ImGui's own light window.
  EXPECT_GE(ContrastOf(kLightGroundInks.accent, {239, 239, 239}), 3);
}

// Dear ImGui with its font, for a display of that size.
class TextContext {
 public:
  explicit TextContext(ImVec2 size) : context_(ImGui::CreateContext()) {
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.DisplaySize = size;
    unsigned char* pixels = nullptr;
    int width = 0, height = 0;
    io.Fonts->GetTexDataAsRGBA32(&pixels, &width, &height);
  }
  ~TextContext() { ImGui::DestroyContext(context_); }
  TextContext(const TextContext&) = delete;
  TextContext& operator=(const TextContext&) = delete;

 private:
  ImGuiContext* const context_;
};

std::vector<std::string> SplitLines(const std::string& lines) {
  std::vector<std::string> split;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) split.push_back(line);
  return split;
}

std::string WithoutBreaks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

// "(2." stood at the end of a line and "1×)" below it.
TEST(PanelText, LinesBreakAtSpacesAlone) {
  const TextContext context({800, 600});
  const std::string text = "one step 0.0187 ms, dense 0.0384 ms (2.1x), the median of 4 times in 12.5 s";
  ImGui::NewFrame();
  for (float wide = 30; wide < 700; wide += 7) {
    ImGui::SetNextWindowSize({wide, 400});
    ImGui::Begin(("of " + std::to_string(wide)).c_str(), nullptr, ImGuiWindowFlags_NoSavedSettings);
    const float room = ImGui::GetContentRegionAvail().x;
    std::string lines = InLines(text);
    for (const std::string& line : SplitLines(lines)) EXPECT_LE(TextSize(line).x, room) << wide << ": " << line;
    bool all_have_room = true;
    std::istringstream words(text);
    for (std::string word; words >> word;) all_have_room = all_have_room && TextSize(word).x <= room;
    if (all_have_room) {
      std::replace(lines.begin(), lines.end(), '\n', ' ');
      EXPECT_EQ(lines, text) << "no word is taken apart, or lost";
    } else {
      EXPECT_EQ(WithoutBreaks(lines), WithoutBreaks(text)) << wide;
    }
    ImGui::End();
  }
  ImGui::Begin("lines");
  EXPECT_EQ(InLines("a\n\nb"), "a\n\nb") << "breaks that are there stay";
  EXPECT_EQ(InLines(""), "");
  ImGui::End();
  ImGui::EndFrame();
}

// A method's parameters have no spaces: what no line had room for was cut off at the panel's edge.
TEST(PanelText, AWordThatNoLineHasRoomForIsBroken) {
  const TextContext context({800, 600});
  std::string parameters, plain, two_bytes;
  for (int i = 0; i < 10; ++i) parameters += "a=1,b=2,";
  for (int i = 0; i < 80; ++i) plain += 'x';
  for (int i = 0; i < 80; ++i) two_bytes += "é";
  ImGui::NewFrame();
  // 4.5 is narrower than a character, of which a line has one all the same.
  for (const float room : {4.5f, 60.0f, 101.5f, 200.0f, 333.0f}) {
    ImGui::SetNextWindowSize({room + 2 * ImGui::GetStyle().WindowPadding.x, 400});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowMinSize, {1, 1});
    ImGui::Begin(("of " + std::to_string(room)).c_str(), nullptr, ImGuiWindowFlags_NoSavedSettings);
    ImGui::PopStyleVar();
    const float had = ImGui::GetContentRegionAvail().x;
    for (const std::string& text :
         {"set " + parameters + " end", "set " + plain + " end", "set " + two_bytes + " end"}) {
      const std::string lines = InLines(text);
      EXPECT_EQ(WithoutBreaks(lines), WithoutBreaks(text)) << "nothing is lost";
      for (const std::string& line : SplitLines(lines)) {
        const bool is_one = line.size() == 1 || line == "é";
        EXPECT_TRUE(is_one || TextSize(line).x <= had) << had << ": " << line;
        EXPECT_NE(static_cast<unsigned char>(line.front()) & 0xc0, 0x80) << "a character is whole: " << line;
      }
    }
    if (room >= 60) {
      for (const std::string& line : SplitLines(InLines(parameters)))
        EXPECT_EQ(line.back(), ',') << room << ": " << line;
    }
    ImGui::End();
  }
  ImGui::EndFrame();
}

// A name that has a comma of its own, such as a trace's, is one part.
TEST(OverlayText, LeavesOutWholeParts) {
  const TextContext context({100, 100});
  ImGui::NewFrame();
  const std::vector<std::string> parts = {"head 1:2 of a, b.h5", "SparQ", "kept 3.0 %"};
  const auto within = [&](const std::string& text) {
    return FirstPartsWithin(parts, static_cast<double>(TextSize(text).x));
  };
  EXPECT_EQ(within("head 1:2 of a, b.h5, SparQ, kept 3.0 %"), "head 1:2 of a, b.h5, SparQ, kept 3.0 %");
  EXPECT_EQ(within("head 1:2 of a, b.h5, SparQ, kept 3.0"), "head 1:2 of a, b.h5, SparQ");
  EXPECT_EQ(within("head 1:2 of a, b.h5"), "head 1:2 of a, b.h5");
  const std::string elided = within("head 1:2 of a, b");
  EXPECT_TRUE(elided.ends_with("…")) << elided;
  EXPECT_TRUE(elided.starts_with("head 1:2 of a")) << elided;
  const double room = static_cast<double>(TextSize("the two maps").x);
  EXPECT_EQ(WrappedLines("the two maps differ here", room), (std::vector<std::string>{"the two maps", "differ here"}));
  EXPECT_EQ(WrappedLines("uninterrupted word", 1), (std::vector<std::string>{"uninterrupted", "word"}));
  ImGui::EndFrame();
}

TEST(OverlayEdges, LieBetweenPixelsOfTheScreen) {
  ImGuiContext* const context = ImGui::CreateContext();
  ImGui::GetIO().IniFilename = nullptr;
  for (const auto& [scale, edge, pixel] :
       {std::tuple(1.0f, 3.0, 1.0), std::tuple(2.0f, 3.5, 0.5), std::tuple(1.25f, 3.2, 0.8)}) {
    ImGui::GetIO().DisplayFramebufferScale = {scale, scale};
    EXPECT_DOUBLE_EQ(OnDevicePixel(3.9), edge);
    EXPECT_DOUBLE_EQ(DevicePixel(), pixel);
  }
  ImGui::DestroyContext(context);
}

}  // namespace
}  // namespace headscope::ui
