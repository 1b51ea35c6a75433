// SPDX-License-Identifier: Apache-2.0
// The classes of heads: the one list of them, with what each is called and painted in.
#pragma once

#include <array>
#include <cstddef>

#include "analysis/types/color_map.h"

namespace headscope::analysis {

// Files hold the numbers: a new class comes last, before the count.
enum class HeadClass { kUnknown = 0, kSinkLocal, kVerticalSlash, kBlock, kDiffuse, kRetrieval, kSink, kLocal, kCount };

struct HeadClassInfo {
  HeadClass head_class;
  const char* name;
  Rgb color;  // apart from every other one for colour-blind eyes, too
  // The mass lies near the row or on the first tokens, whoever holds it there: maps of these look alike.
  bool is_near = false;
};

// In the order in which people are shown them.
inline constexpr std::array kHeadClasses = {
    HeadClassInfo{HeadClass::kSink, "sink", {42, 63, 170}, /*is_near=*/true},
    HeadClassInfo{HeadClass::kSinkLocal, "sink+local", {53, 160, 235}, /*is_near=*/true},
    HeadClassInfo{HeadClass::kLocal, "local", {142, 235, 247}, /*is_near=*/true},
    HeadClassInfo{HeadClass::kVerticalSlash, "vertical-slash", {227, 159, 39}},
    HeadClassInfo{HeadClass::kBlock, "block", {60, 158, 90}},
    HeadClassInfo{HeadClass::kRetrieval, "retrieval-like", {195, 41, 140}},
    HeadClassInfo{HeadClass::kDiffuse, "diffuse", {190, 190, 190}},
    HeadClassInfo{HeadClass::kUnknown, "unknown", {90, 90, 90}},
};

// False for a number that names no class, as a file may hold.
constexpr bool IsHeadClass(int number) {
  return number >= 0 && number < static_cast<int>(HeadClass::kCount);
}

// Of what is no class: that of kUnknown, the last.
constexpr const HeadClassInfo& InfoOf(HeadClass head_class) {
  for (const HeadClassInfo& info : kHeadClasses) {
    if (info.head_class == head_class) return info;
  }
  return kHeadClasses.back();
}

namespace internal {
consteval bool ListsEveryHeadClass() {
  for (int number = 0; IsHeadClass(number); ++number) {
    if (InfoOf(static_cast<HeadClass>(number)).head_class != static_cast<HeadClass>(number)) return false;
  }
  return kHeadClasses.size() == static_cast<size_t>(HeadClass::kCount);
}
static_assert(ListsEveryHeadClass(), "kHeadClasses has an entry for each class");
}  // namespace internal

constexpr const char* HeadClassName(HeadClass head_class) {
  return InfoOf(head_class).name;
}
constexpr Rgb ClassColor(HeadClass head_class) {
  return InfoOf(head_class).color;
}

}  // namespace headscope::analysis
