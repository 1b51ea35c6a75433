// SPDX-License-Identifier: Apache-2.0
#include "contents/stored_types.h"

#include <utility>
#include <vector>

#include "trace/hdf5_values.h"

namespace headscope::data {
namespace {

const std::vector<std::pair<StoredKind, hid_t>>& KnownTypes() {
  static const std::vector<std::pair<StoredKind, hid_t>> known = {
      {StoredKind::kUint8, H5T_STD_U8LE},
      {StoredKind::kInt8, H5T_STD_I8LE},
      {StoredKind::kInt32, H5T_STD_I32LE},
      {StoredKind::kInt64, H5T_STD_I64LE},
      {StoredKind::kFloat32, H5T_IEEE_F32LE},
      {StoredKind::kFloat64, H5T_IEEE_F64LE},
      {StoredKind::kBFloat16, FloatType(ElementType::kBFloat16).Release()},
      {StoredKind::kFloat16, FloatType(ElementType::kFloat16).Release()},
      {StoredKind::kBoolean, BooleanType().Release()},
      {StoredKind::kPhase, PhaseType().Release()},
  };
  return known;
}

StoredClass ClassOf(hid_t type) {
  if (H5Tis_variable_str(type) > 0) return StoredClass::kVariableText;
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return StoredClass::kInteger;
    case H5T_FLOAT:
      return StoredClass::kFloat;
    case H5T_STRING:
      return StoredClass::kText;
    case H5T_VLEN:
      return StoredClass::kVariableLength;
    case H5T_REFERENCE:
      return StoredClass::kReference;
    case H5T_COMPOUND:
      return StoredClass::kCompound;
    case H5T_OPAQUE:
      return StoredClass::kOpaque;
    case H5T_ARRAY:
      return StoredClass::kArray;
    case H5T_ENUM:
      return StoredClass::kEnumeration;
    default:
      return StoredClass::kUnknown;
  }
}

}  // namespace

StoredType DescribeType(hid_t type) {
  StoredType described;
  if (type < 0) return described;
  described.type_class = ClassOf(type);
  described.size = H5Tget_size(type);
  if (H5Tcommitted(type) != 0) return described;  // a type with a name of its own, which headscope never writes
  if (described.type_class == StoredClass::kText) {
    described.kind = StoredKind::kText;
    return described;
  }
  for (const auto& [kind, known] : KnownTypes()) {
    if (H5Tequal(type, known) > 0) described.kind = kind;
  }
  return described;
}

}  // namespace headscope::data
