// SPDX-License-Identifier: Apache-2.0
// The type of one number of a tensor: which there are, what people call them, how many bytes each takes.
//
// What a file format calls them stands with the reader of that format (data/trace/trace_format.h for traces,
// model/safetensors.h for checkpoints), and what LibTorch and kernels/ call them is converted where they are called.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headscope {

enum class ElementType : uint8_t { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2 };

struct ElementTypeInfo {
  ElementType type;
  std::string_view name;  // as people type and read it
  int64_t bytes;
};
// In the order of their numbers.
inline constexpr std::array<ElementTypeInfo, 3> kElementTypes = {
    {{ElementType::kFloat32, "fp32", 4}, {ElementType::kBFloat16, "bf16", 2}, {ElementType::kFloat16, "fp16", 2}}};

constexpr const ElementTypeInfo& InfoOf(ElementType type) {
  return kElementTypes[static_cast<size_t>(type)];
}
constexpr int64_t SizeOf(ElementType type) {
  return InfoOf(type).bytes;
}
constexpr std::string_view NameOf(ElementType type) {
  return InfoOf(type).name;
}

// "fp32", "bf16" or "fp16"; nothing for another text.
std::optional<ElementType> FindElementType(std::string_view name);
// The same as it is typed: throws UsageError, of the field "dtype", for another text.
ElementType ParseElementType(const std::string& text);
// What a model computes in, as it is typed: "fp32", "bf16", or "auto", which leaves it to the model. Throws the same.
std::optional<ElementType> ParseComputeType(const std::string& text);
// "auto" for nothing.
std::string_view ComputeTypeName(std::optional<ElementType> type);

// kernels/ stands alone and has an enumeration of the same three types. These two make the one of the other, by the
// enumerators' names; templates, because this room lies below kernels/.
template <typename KernelType>
constexpr KernelType KernelTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return KernelType::kFloat32;
    case ElementType::kBFloat16:
      return KernelType::kBFloat16;
    case ElementType::kFloat16:
      break;
  }
  return KernelType::kFloat16;
}
template <typename KernelType>
constexpr ElementType ElementTypeOf(KernelType type) {
  switch (type) {
    case KernelType::kFloat32:
      return ElementType::kFloat32;
    case KernelType::kBFloat16:
      return ElementType::kBFloat16;
    case KernelType::kFloat16:
      break;
  }
  return ElementType::kFloat16;
}

}  // namespace headscope
