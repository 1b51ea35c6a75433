// SPDX-License-Identifier: Apache-2.0
// Files of one NumPy array of real numbers (.npy).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headscope::app {

struct NumpyArray {
  std::vector<int64_t> shape;
  std::vector<float> values;  // C order; as many as the shape's product
};

// Format version 1.0, fp32, little-endian.
std::string NumpyFile(const NumpyArray& array);

// Of format version 1.0 to 3.0: little-endian fp32 or fp64 in C order, at most 8 dimensions. Untrusted. Throws
// BadInputError that names `path`, what is wrong and `remedy`.
NumpyArray ParseNumpyFile(const std::string& text, const std::string& path, const std::string& remedy);

}  // namespace headscope::app
