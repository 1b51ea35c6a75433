// SPDX-License-Identifier: Apache-2.0
// Bad files are made from good ones, by plain HDF5 calls.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <vector>

namespace headscope::data::testing {

inline hid_t Scalar() {
  return H5Screate(H5S_SCALAR);
}

inline hid_t Simple(const std::vector<hsize_t>& extents) {
  return H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
}

inline hid_t Chunked(const std::vector<hsize_t>& chunk) {
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
  return properties;
}

inline void Replace(hid_t file, const char* name, hid_t type, hid_t space, hid_t properties = H5P_DEFAULT) {
  H5Ldelete(file, name, H5P_DEFAULT);
  ASSERT_GE(H5Dclose(H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT)), 0) << name;
}

inline void ReplaceAttribute(hid_t file, const char* object, const char* name, hid_t type, hid_t space,
                             const void* value) {
  H5Adelete_by_name(file, object, name, H5P_DEFAULT);
  const hid_t attribute = H5Acreate_by_name(file, object, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Awrite(attribute, type, value), 0) << name;
  H5Aclose(attribute);
}

inline void SetInt64(hid_t file, const char* name, int64_t value) {
  ReplaceAttribute(file, "/", name, H5T_STD_I64LE, Scalar(), &value);
}

inline void SetInt32(hid_t file, const char* object, const char* name, int32_t value) {
  ReplaceAttribute(file, object, name, H5T_STD_I32LE, Scalar(), &value);
}

}  // namespace headscope::data::testing
