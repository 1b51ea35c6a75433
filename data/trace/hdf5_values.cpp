// SPDX-License-Identifier: Apache-2.0
#include "trace/hdf5_values.h"

#include <algorithm>

#include "base/errors.h"
#include "trace/trace_format.h"

namespace headscope::data {
namespace {

TypeHandle Enumeration(const char* zero, const char* one) {
  TypeHandle type(Require(H5Tenum_create(H5T_STD_I8LE), "creating an enumeration"));
  const int8_t values[2] = {0, 1};
  Require(H5Tenum_insert(type.get(), zero, &values[0]), "creating an enumeration");
  Require(H5Tenum_insert(type.get(), one, &values[1]), "creating an enumeration");
  return type;
}

void Create(hid_t object, const std::string& name, hid_t file_type, hid_t memory_type, hid_t space, const void* value) {
  AttributeHandle attribute(Require(H5Acreate2(object, name.c_str(), file_type, space, H5P_DEFAULT, H5P_DEFAULT),
                                    "creating attribute " + name));
  Require(H5Awrite(attribute.get(), memory_type, value), "writing attribute " + name);
}

void CreateScalar(hid_t object, const std::string& name, hid_t file_type, hid_t memory_type, const void* value) {
  SpaceHandle space(Require(H5Screate(H5S_SCALAR), "creating attribute " + name));
  Create(object, name, file_type, memory_type, space.get(), value);
}

void CreateList(hid_t object, const std::string& name, hid_t file_type, hid_t memory_type, size_t count,
                const void* values) {
  const hsize_t extent = count;
  SpaceHandle space(Require(H5Screate_simple(1, &extent, nullptr), "creating attribute " + name));
  Create(object, name, file_type, memory_type, space.get(), values);
}

}  // namespace

PropertyHandle WithoutTimes(hid_t property_class) {
  PropertyHandle creation(Require(H5Pcreate(property_class), "creating properties"));
  Require(H5Pset_obj_track_times(creation.get(), false), "switching time stamps off");
  return creation;
}

TypeHandle FloatType(ElementType encoding) {
  TypeHandle type(Require(H5Tcopy(H5T_IEEE_F32LE), "creating a floating-point type"));
  if (encoding == ElementType::kFloat32) {
    return type;
  }
  // HDF5 1.10 has no 16-bit floats of its own. Order matters: the fields must lie inside the new size before the size
  // shrinks.
  const bool brain = encoding == ElementType::kBFloat16;
  const size_t exponent_bits = brain ? 8 : 5;
  const size_t mantissa_bits = 15 - exponent_bits;
  Require(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits), "creating a 16-bit float");
  Require(H5Tset_size(type.get(), 2), "creating a 16-bit float");
  Require(H5Tset_ebias(type.get(), brain ? 127 : 15), "creating a 16-bit float");
  return type;
}

TypeHandle BooleanType() {
  return Enumeration("FALSE", "TRUE");
}
TypeHandle PhaseType() {
  return Enumeration("PROMPT", "DECODE");
}

TypeHandle TextType(size_t bytes) {
  TypeHandle type(Require(H5Tcopy(H5T_C_S1), "creating a text type"));
  Require(H5Tset_size(type.get(), std::max<size_t>(bytes, 1)), "creating a text type");
  Require(H5Tset_cset(type.get(), H5T_CSET_UTF8), "creating a text type");
  Require(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "creating a text type");
  return type;
}

PackedTexts PackTexts(const std::vector<std::string>& texts) {
  PackedTexts packed;
  for (const std::string& text : texts) {
    packed.width = std::max(packed.width, text.size());
  }
  packed.bytes.assign(packed.width * texts.size(), '\0');
  for (size_t i = 0; i < texts.size(); ++i) {
    packed.bytes.replace(i * packed.width, texts[i].size(), texts[i]);
  }
  return packed;
}

void CreateText(hid_t object, const std::string& name, const std::string& value) {
  if (value.size() > kMaxAttributeText) {
    throw FailedError({.field = name,
                       .problem = "it has " + std::to_string(value.size()) + " bytes, and a trace holds at most " +
                                  std::to_string(kMaxAttributeText),
                       .remedy = "shorten it"});
  }
  const TypeHandle type = TextType(value.size());
  CreateScalar(object, name, type.get(), type.get(), value.c_str());  // an empty text is one zero byte
}

void CreateTexts(hid_t object, const std::string& name, const std::vector<std::string>& values) {
  const PackedTexts packed = PackTexts(values);
  const TypeHandle type = TextType(packed.width);
  CreateList(object, name, type.get(), type.get(), values.size(), packed.bytes.data());
}

void CreateInteger(hid_t object, const std::string& name, hid_t file_type, int64_t value) {
  CreateScalar(object, name, file_type, H5T_NATIVE_INT64, &value);
}

void CreateFloat(hid_t object, const std::string& name, float value) {
  CreateScalar(object, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, &value);
}

void CreateBoolean(hid_t object, const std::string& name, bool value) {
  const TypeHandle type = BooleanType();
  const int8_t number = value ? 1 : 0;
  CreateScalar(object, name, type.get(), type.get(), &number);
}

void CreateIntegers(hid_t object, const std::string& name, std::span<const int32_t> values) {
  CreateList(object, name, H5T_STD_I32LE, H5T_NATIVE_INT32, values.size(), values.data());
}

void CreateFloats(hid_t object, const std::string& name, std::span<const float> values) {
  CreateList(object, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, values.size(), values.data());
}

}  // namespace headscope::data
