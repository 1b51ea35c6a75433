// SPDX-License-Identifier: Apache-2.0
// What files say of a tuned head beside its parameters, once: the columns of the CSV, the members of the JSON, the
// numbers that an interrupted run keeps, and what the reader tells from a parameter are all made from these lists.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/device.h"
#include "choices/tuning.h"
#include "support/run_origin.h"

namespace headscope::app {

// `Part` with the constness of Whole.
template <typename Whole, typename Part>
using AsConst = std::conditional_t<std::is_const_v<Whole>, const Part, Part>;

inline constexpr const char* kTargetMet = "target_met";
inline constexpr const char* kCheckedPrefix = "checked_";  // of columns; the JSON has an object

// Calls visit(name, place, number) for every number, in the files' order. `place`: a JSON pointer into a result of
// commands/tuning_progress.h, whose names are older.
template <typename Quality, typename Visit>
void VisitQuality(Quality& whole, const Visit& visit) {
  AsConst<Quality, analysis::SettingQuality>& quality = whole;
  // Compiles only while these are all members: one that is new is visited below. `reached` is kTargetMet, and of the
  // mass files have the statistics alone.
  [[maybe_unused]] auto& [reached, kept_fraction, mass, relative_error, time_share, work_share] = quality;
  visit("kept_fraction", "/kept", kept_fraction);
  visit("cra_min", "/mass/0", mass.minimum);
  visit("cra_p5", "/mass/1", mass.fifth_percentile);
  visit("cra_mean", "/mass/2", mass.mean);
  visit("relative_error", "/error", relative_error);
  visit("time_share", "/time", time_share);
  visit("work_share", "/work", work_share);
}

// The same of a head, in the CSV's order: visit(name, place, value), where a value is a number, a text or a Device, and
// visit_quality(prefix, place, quality), whose quality may be a std::optional.
template <typename Head, typename Visit, typename VisitItsQuality>
void VisitTunedHead(Head& whole, const Visit& visit, const VisitItsQuality& visit_quality) {
  AsConst<Head, TunedHead>& head = whole;
  // As above. The head's numbers, its method and the values stand before.
  [[maybe_unused]] auto& [id, method, found, device, outside_mass, checked] = head;
  visit_quality("", "/found", found);
  visit("outside_mass", "/outside", outside_mass);
  visit_quality(kCheckedPrefix, "/checked", checked);
  visit("device", "/device", device.name);
  visit("device_id", "/device_id", device.device);
}

// A value that VisitTunedHead visits, as JSON files have it.
inline double InFile(double number) {
  return number;
}
inline std::string InFile(const std::string& text) {
  return text;
}
inline std::string InFile(const Device& device) {
  return DeviceText(device);
}

inline constexpr const char* kComplete = "complete";  // of the whole run

// Whether a column of the CSV is such a result, and so no parameter.
inline bool IsTuningResult(std::string_view column) {
  bool found = column == kTargetMet || column == kComplete || column.starts_with(kCheckedPrefix) ||
               std::ranges::find(kOriginNames, column) != kOriginNames.end();
  const auto is_column = [&](std::string_view name, const char*, const auto&) { found |= column == name; };
  const TunedHead head;
  VisitTunedHead(head, is_column, [&](const char*, const char*, const auto&) {});
  VisitQuality(head.found, is_column);
  return found;
}

}  // namespace headscope::app
