// SPDX-License-Identifier: Apache-2.0
#include "model/ceilings.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <stdexcept>
#include <string_view>

#include "base/device.h"
#include "network/torch_library.h"
#include "network/torch_runtime.h"

namespace headscope::model {
namespace {

constexpr std::string_view kFixedSize;  // nobody chose the sizes of a ceiling, so a smaller one is no remedy

void CheckPositive(const char* what, int64_t value) {
  if (value < 1) throw std::invalid_argument(std::string(what) + " " + std::to_string(value) + ": it must be positive");
}

class MatrixProduct : public Ceiling {
 public:
  MatrixProduct(int64_t size, at::TensorOptions options) {
    const c10::InferenceMode no_gradients;
    try {
      a_ = at::randn({size, size}, options);
      b_ = at::randn({size, size}, options);
      c_ = at::empty({size, size}, options);
    } catch (...) {
      RethrowTorchError("making matrices of " + std::to_string(size) + " rows", kFixedSize);
    }
  }
  void Run() override {
    const c10::InferenceMode no_gradients;
    try {
      at::mm_out(c_, a_, b_);
    } catch (...) {
      RethrowTorchError("multiplying matrices of " + std::to_string(a_.size(0)) + " rows", kFixedSize);
    }
  }

 private:
  at::Tensor a_, b_, c_;
};

class Copy : public Ceiling {
 public:
  Copy(int64_t bytes, c10::Device device) {
    const c10::InferenceMode no_gradients;
    const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
    try {
      // Written to, since untouched pages of a CPU's memory are all one page.
      from_ = at::full({bytes / 4}, 1.0f, options);
      to_ = at::full({bytes / 4}, 0.0f, options);
    } catch (...) {
      RethrowTorchError("making two buffers of " + std::to_string(bytes >> 20) + " MiB", kFixedSize);
    }
  }
  void Run() override {
    const c10::InferenceMode no_gradients;
    try {
      to_.copy_(from_);
    } catch (...) {
      RethrowTorchError("copying " + std::to_string(from_.nbytes() >> 20) + " MiB", kFixedSize);
    }
  }

 private:
  at::Tensor from_, to_;
};

}  // namespace

std::unique_ptr<Ceiling> on_torch::MakeMatrixProduct(int64_t size, ElementType dtype, const Device& device,
                                                     int32_t num_threads) {
  CheckPositive("size", size);
  const c10::Device where = OpenDevice(device);
  SetTorchThreads(num_threads);
  return std::make_unique<MatrixProduct>(size, at::TensorOptions(ScalarTypeOf(dtype)).device(where));
}

std::unique_ptr<Ceiling> on_torch::MakeCopy(int64_t bytes, const Device& device, int32_t num_threads) {
  CheckPositive("bytes", bytes);
  const c10::Device where = OpenDevice(device);
  SetTorchThreads(num_threads);
  return std::make_unique<Copy>(bytes, where);
}

}  // namespace headscope::model
