// Attributes of a file that somebody else may have made.
#include <cstring>

#include "trace/hdf5_values.h"
#include "trace/untrusted_file.h"

namespace headscope::data {

AttributeHandle UntrustedFile::Attribute(const GroupHandle& group, const std::string& name, int rank) const {
  const std::string field = "attribute " + name;
  if (H5Aexists(group.get(), name.c_str()) <= 0) {
    Refuse(field, std::string("is missing; ") + kind_.not_one);
  }
  AttributeHandle attribute(H5Aopen(group.get(), name.c_str(), H5P_DEFAULT));
  const SpaceHandle space(attribute.valid() ? H5Aget_space(attribute.get()) : H5I_INVALID_HID);
  if (!space.valid() || H5Sget_simple_extent_type(space.get()) == H5S_NULL ||
      H5Sget_simple_extent_ndims(space.get()) != rank) {
    Refuse(field, std::string("has an unexpected shape; ") + kind_.damaged);
  }
  return attribute;
}

std::string UntrustedFile::Text(const GroupHandle& group, const std::string& name) const {
  const AttributeHandle attribute = Attribute(group, name, 0);
  const TypeHandle type(H5Aget_type(attribute.get()));
  if (!type.valid() || H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0) {
    Refuse("attribute " + name,
           std::string("has ") + TypeClassName(type.get()) + " instead of a fixed-length string; " + kind_.damaged);
  }
  const size_t bytes = H5Tget_size(type.get());
  if (bytes > kMaxAttributeText) {
    Refuse("attribute " + name, "has " + std::to_string(bytes) + " bytes, at most " +
                                    std::to_string(kMaxAttributeText) + " are allowed; " + kind_.damaged);
  }
  std::string text(bytes, '\0');
  if (H5Aread(attribute.get(), type.get(), text.data()) < 0) {
    Refuse("attribute " + name, std::string("cannot be read; ") + kind_.damaged);
  }
  text.resize(std::strlen(text.c_str()));
  return text;
}

void UntrustedFile::ReadScalar(const GroupHandle& group, const std::string& name, hid_t file_type, hid_t memory_type,
                               void* out) const {
  const AttributeHandle attribute = Attribute(group, name, 0);
  const TypeHandle type(H5Aget_type(attribute.get()));
  if (!type.valid() || !SameType(type.get(), file_type)) {
    Refuse("attribute " + name, std::string("has ") + TypeClassName(type.get()) + " that " + kind_.noun +
                                    " does not use there; " + kind_.damaged);
  }
  if (H5Aread(attribute.get(), memory_type, out) < 0) {
    Refuse("attribute " + name, std::string("cannot be read; ") + kind_.damaged);
  }
}

int32_t UntrustedFile::Integer32(const GroupHandle& group, const std::string& name) const {
  int32_t value = 0;
  ReadScalar(group, name, H5T_STD_I32LE, H5T_NATIVE_INT32, &value);
  return value;
}

int64_t UntrustedFile::Integer64(const GroupHandle& group, const std::string& name) const {
  int64_t value = 0;
  ReadScalar(group, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
  return value;
}

float UntrustedFile::Float(const GroupHandle& group, const std::string& name) const {
  float value = 0;
  ReadScalar(group, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, &value);
  return value;
}

bool UntrustedFile::Boolean(const GroupHandle& group, const std::string& name) const {
  int8_t value = 0;
  const TypeHandle type = BooleanType();
  ReadScalar(group, name, type.get(), type.get(), &value);
  if (value != 0 && value != 1) {
    Refuse("attribute " + name, "is " + std::to_string(value) + " instead of 0 or 1; " + kind_.damaged);
  }
  return value == 1;
}

std::vector<int32_t> UntrustedFile::Integers(const GroupHandle& group, const std::string& name,
                                             int64_t max_count) const {
  const AttributeHandle attribute = Attribute(group, name, 1);
  const TypeHandle type(H5Aget_type(attribute.get()));
  const SpaceHandle space(H5Aget_space(attribute.get()));
  hsize_t count = 0;
  if (!type.valid() || !space.valid() || !SameType(type.get(), H5T_STD_I32LE) ||
      H5Sget_simple_extent_dims(space.get(), &count, nullptr) != 1) {
    Refuse("attribute " + name, std::string("is not a list of 32-bit integers; ") + kind_.damaged);
  }
  if (count > static_cast<hsize_t>(max_count)) {
    Refuse("attribute " + name, "has " + std::to_string(count) + " entries, at most " + std::to_string(max_count) +
                                    " are allowed; " + kind_.damaged);
  }
  std::vector<int32_t> values(count);
  if (H5Aread(attribute.get(), H5T_NATIVE_INT32, values.data()) < 0) {
    Refuse("attribute " + name, std::string("cannot be read; ") + kind_.damaged);
  }
  return values;
}

}  // namespace headscope::data
