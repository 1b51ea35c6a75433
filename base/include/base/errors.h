// SPDX-License-Identifier: Apache-2.0
// How capture refuses: one sentence that names the file, the field and the remedy.
#pragma once

#include <stdexcept>

namespace headscope {

// A checkpoint, tokenizer or prompt that cannot be used (exit code 3).
class BadInputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// No such device, or not enough memory for the model (exit code 4).
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace headscope
