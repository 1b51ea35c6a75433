// SPDX-License-Identifier: Apache-2.0
#include "base/element_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/errors.h"

namespace headscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// As kernels/ and others have one, in an order of their own.
enum class Other { kFloat16, kFloat32, kBFloat16 };

TEST(ElementType, TableIsInTheOrderOfTheNumbers) {
  for (size_t i = 0; i < kElementTypes.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(kElementTypes[i].type), i);
    EXPECT_EQ(FindElementType(kElementTypes[i].name), kElementTypes[i].type);
    EXPECT_EQ(ParseElementType(std::string(NameOf(kElementTypes[i].type))), kElementTypes[i].type);
  }
  EXPECT_EQ(SizeOf(ElementType::kFloat32), 4);
  EXPECT_EQ(SizeOf(ElementType::kBFloat16), 2);
  EXPECT_EQ(SizeOf(ElementType::kFloat16), 2);
}

TEST(ElementType, AnotherRoomsTypeIsConvertedByName) {
  EXPECT_EQ(KernelTypeOf<Other>(ElementType::kFloat32), Other::kFloat32);
  EXPECT_EQ(KernelTypeOf<Other>(ElementType::kBFloat16), Other::kBFloat16);
  EXPECT_EQ(KernelTypeOf<Other>(ElementType::kFloat16), Other::kFloat16);
  for (const ElementTypeInfo& info : kElementTypes)
    EXPECT_EQ(ElementTypeOf(KernelTypeOf<Other>(info.type)), info.type) << info.name;
}

TEST(ElementType, AnythingElseIsRefusedWithItsField) {
  for (const std::string text : {"", "fp8", "FP32", "float32", "auto", "fp32 "}) {
    EXPECT_EQ(FindElementType(text), std::nullopt) << text;
    EXPECT_THAT([&] { ParseElementType(text); }, ThrowsMessage<UsageError>(AllOf(StartsWith("dtype \"" + text + "\":"),
                                                                                 HasSubstr("fp32, bf16 or fp16"))));
  }
}

TEST(ElementType, AModelComputesInTwoOfThemOrAsItIsStored) {
  for (const std::string text : {"auto", "fp32", "bf16"}) EXPECT_EQ(ComputeTypeName(ParseComputeType(text)), text);
  EXPECT_EQ(ParseComputeType("auto"), std::nullopt);
  for (const std::string text : {"", "fp16", "fp8", "AUTO"})
    EXPECT_THAT([&] { ParseComputeType(text); }, ThrowsMessage<UsageError>(HasSubstr("auto, fp32 or bf16"))) << text;
}

}  // namespace
}  // namespace headscope
