// SPDX-License-Identifier: Apache-2.0
// Result of a call into the kernels room: success, or one sentence that names the field, its value and what is allowed.
//
// Kernels never throw and never print: a caller on a render thread must be able to go on. A call that is refused has
// written nothing; one that fails under way (out of memory, device error, stop) leaves its outputs undefined.
#pragma once

#include <string>
#include <utility>

namespace headscope::kernels {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,  // null pointer, wrong stride, index out of range, duplicate or unsorted entries
  kUnsupported,      // a legal problem that this executor does not take (head_dim, dtype, GPU too old)
  kOutOfMemory,
  kDeviceMissing,  // no GPU, or a build without CUDA
  kDeviceError,    // a CUDA call failed; the message has the kernel's name and the shapes
  kCancelled,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  // One sentence without a trailing newline; empty when ok().
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace headscope::kernels
