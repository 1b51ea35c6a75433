// SPDX-License-Identifier: Apache-2.0
#include "base/element_type.h"

#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope {
namespace {

constexpr std::string_view kAuto = "auto";

[[noreturn]] void Refuse(const std::string& text, const char* allowed) {
  throw UsageError({.field = "dtype", .value = Quoted(text), .problem = allowed});
}

}  // namespace

std::optional<ElementType> FindElementType(std::string_view name) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (info.name == name) return info.type;
  }
  return {};
}

ElementType ParseElementType(const std::string& text) {
  const std::optional<ElementType> type = FindElementType(text);
  if (!type) Refuse(text, "it must be fp32, bf16 or fp16");
  return *type;
}

std::optional<ElementType> ParseComputeType(const std::string& text) {
  if (text == kAuto) return {};
  const std::optional<ElementType> type = FindElementType(text);
  if (!type || *type == ElementType::kFloat16) Refuse(text, "it must be auto, fp32 or bf16");
  return type;
}

std::string_view ComputeTypeName(std::optional<ElementType> type) {
  return type ? NameOf(*type) : kAuto;
}

}  // namespace headscope
