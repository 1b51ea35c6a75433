// SPDX-License-Identifier: Apache-2.0
// The way into headscope_torch (torch_library.h).
#include "network/torch_library.h"

extern "C" __attribute__((visibility("default"))) const headscope::model::TorchLibrary* HeadscopeTorchLibrary() {
  using namespace headscope::model;
  static constexpr TorchLibrary kLibrary = {.open_transformer = &on_torch::OpenTransformer,
                                            .captured_type = &on_torch::CapturedType,
                                            .make_reference_attention = &on_torch::MakeReferenceAttention,
                                            .make_matrix_product = &on_torch::MakeMatrixProduct,
                                            .make_copy = &on_torch::MakeCopy,
                                            .gpu_rooms = &on_torch::GpuRooms};
  return &kLibrary;
}
