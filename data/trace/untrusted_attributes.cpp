// SPDX-License-Identifier: Apache-2.0
// Attributes of a file that somebody else may have made.
#include <algorithm>
#include <cstring>

#include "data/trace_schema.h"
#include "trace/trace_format.h"
#include "trace/untrusted_file.h"

namespace headscope::data {

const StoredAttribute& UntrustedFile::Attribute(const StoredGroup& group, const std::string& name, size_t rank) const {
  const std::string field = "attribute " + name;
  const auto found = std::find_if(group.attributes.begin(), group.attributes.end(),
                                  [&](const StoredAttribute& one) { return one.name == name; });
  if (found == group.attributes.end()) RefuseKind(field, "is missing");
  if (found->extents.size() != rank) Refuse(field, "has an unexpected shape");
  return *found;
}

std::string UntrustedFile::Text(const StoredGroup& group, const std::string& name) const {
  const StoredAttribute& attribute = Attribute(group, name, 0);
  const std::string field = "attribute " + name;
  if (attribute.type.kind != StoredKind::kText) {
    Refuse(field, std::string("has ") + ClassName(attribute.type.type_class) + " instead of a fixed-length string");
  }
  if (attribute.type.size > kMaxAttributeText) {
    Refuse(field, "has " + std::to_string(attribute.type.size) + " bytes, at most " +
                      std::to_string(kMaxAttributeText) + " are allowed");
  }
  if (!attribute.readable) Refuse(field, "cannot be read");
  return attribute.bytes.substr(0, attribute.bytes.find('\0'));
}

void UntrustedFile::ReadScalar(const StoredGroup& group, const std::string& name, StoredKind type, void* out,
                               size_t bytes) const {
  const StoredAttribute& attribute = Attribute(group, name, 0);
  if (attribute.type.kind != type) {
    Refuse("attribute " + name,
           std::string("has ") + ClassName(attribute.type.type_class) + " that " + kind_.noun + " does not use there");
  }
  if (!attribute.readable || attribute.bytes.size() != bytes) {
    Refuse("attribute " + name, "cannot be read");
  }
  std::memcpy(out, attribute.bytes.data(), bytes);
}

int32_t UntrustedFile::Integer32(const StoredGroup& group, const std::string& name) const {
  int32_t value = 0;
  ReadScalar(group, name, StoredKind::kInt32, &value, sizeof value);
  return value;
}

int64_t UntrustedFile::Integer64(const StoredGroup& group, const std::string& name) const {
  int64_t value = 0;
  ReadScalar(group, name, StoredKind::kInt64, &value, sizeof value);
  return value;
}

float UntrustedFile::Float(const StoredGroup& group, const std::string& name) const {
  float value = 0;
  ReadScalar(group, name, StoredKind::kFloat32, &value, sizeof value);
  return value;
}

bool UntrustedFile::Boolean(const StoredGroup& group, const std::string& name) const {
  int8_t value = 0;
  ReadScalar(group, name, StoredKind::kBoolean, &value, sizeof value);
  if (value != 0 && value != 1) {
    Refuse("attribute " + name, "is " + std::to_string(value) + " instead of 0 or 1");
  }
  return value == 1;
}

const std::string& UntrustedFile::List(const StoredGroup& group, const std::string& name, StoredKind type,
                                       const char* type_name, int64_t max_count) const {
  const StoredAttribute& attribute = Attribute(group, name, 1);
  const std::string field = "attribute " + name;
  if (attribute.type.kind != type) {
    Refuse(field, std::string("is not a list of ") + type_name);
  }
  const uint64_t count = attribute.extents[0];
  if (count > static_cast<uint64_t>(max_count)) {
    Refuse(field, "has " + std::to_string(count) + " entries, at most " + std::to_string(max_count) + " are allowed");
  }
  if (!attribute.readable || attribute.bytes.size() != count * 4) {
    Refuse(field, "cannot be read");
  }
  return attribute.bytes;
}

std::vector<int32_t> UntrustedFile::Integers(const StoredGroup& group, const std::string& name,
                                             int64_t max_count) const {
  const std::string& bytes = List(group, name, StoredKind::kInt32, "32-bit integers", max_count);
  std::vector<int32_t> values(bytes.size() / sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> UntrustedFile::Floats(const StoredGroup& group, const std::string& name, int64_t max_count) const {
  const std::string& bytes = List(group, name, StoredKind::kFloat32, "fp32 numbers", max_count);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool UntrustedFile::HasAttribute(const StoredGroup& group, const std::string& name) {
  return std::any_of(group.attributes.begin(), group.attributes.end(),
                     [&](const StoredAttribute& one) { return one.name == name; });
}

bool UntrustedFile::HasDataset(const StoredGroup& group, const std::string& name) {
  return std::any_of(group.datasets.begin(), group.datasets.end(),
                     [&](const StoredDataset& one) { return one.name == name; });
}

}  // namespace headscope::data
