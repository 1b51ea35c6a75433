// SPDX-License-Identifier: Apache-2.0
// The data types, attributes and fixed-length strings that traces and results files are made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/trace_schema.h"
#include "trace/hdf5_handle.h"

namespace headscope::data {

TypeHandle FloatType(ElementType encoding);  // IEEE binary32, bfloat16 or IEEE binary16, little-endian
TypeHandle BooleanType();                    // int8 enumeration FALSE = 0, TRUE = 1 (what h5py calls bool)
TypeHandle PhaseType();                      // int8 enumeration PROMPT = 0, DECODE = 1
TypeHandle TextType(size_t bytes);           // fixed-length UTF-8, padded with zeros; at least one byte
// Texts one behind the other, each padded with zeros to the longest: values of TextType(width).
struct PackedTexts {
  size_t width = 1;  // bytes
  std::string bytes;
};
PackedTexts PackTexts(const std::vector<std::string>& texts);

// Creation properties of a file, group or dataset without times of day: equal contents are then equal bytes. Files do
// not hand theirs down, so each object needs its own.
PropertyHandle WithoutTimes(hid_t property_class);

// Each creates an attribute of `object`. Throws FailedError naming it: a text longer than kMaxAttributeText, a full
// disk.
void CreateText(hid_t object, const std::string& name, const std::string& value);
void CreateTexts(hid_t object, const std::string& name, const std::vector<std::string>& values);
void CreateInteger(hid_t object, const std::string& name, hid_t file_type, int64_t value);
void CreateFloat(hid_t object, const std::string& name, float value);
void CreateBoolean(hid_t object, const std::string& name, bool value);
void CreateIntegers(hid_t object, const std::string& name, std::span<const int32_t> values);
void CreateFloats(hid_t object, const std::string& name, std::span<const float> values);

}  // namespace headscope::data
