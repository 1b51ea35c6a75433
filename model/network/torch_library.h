// SPDX-License-Identifier: Apache-2.0
// LibTorch, loaded when a model or LibTorch's attention is first asked for.
//
// LibTorch registers every operator that it has while it is loaded: 0.4 s of processor time and 100 MB of memory, which
// a command that only reads a trace should not cost. So the units that see it make a library of their own,
// headscope_torch, and the rest of the room reaches them through this table. The functions that the rest calls
// (OpenTransformer, CapturedType, MakeReferenceAttention, MakeMatrixProduct, MakeCopy) are declared where their classes
// are; torch_library.cpp passes each call on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "model/ceilings.h"
#include "model/layer_placement.h"
#include "model/reference_attention.h"
#include "model/transformer.h"

namespace headscope::model {

// The same functions inside headscope_torch, each in the file that is named like the header of its class.
namespace on_torch {

std::unique_ptr<Transformer> OpenTransformer(const std::string& model_dir, const SessionOptions& options,
                                             const ProgressFunction& progress, const std::stop_token& stop);
ElementType CapturedType(const std::string& model_dir, const SessionOptions& options);
std::unique_ptr<ReferenceAttention> MakeReferenceAttention(const ReferenceAttentionProblem& problem,
                                                           const Device& device, int32_t num_threads);
std::unique_ptr<Ceiling> MakeMatrixProduct(int64_t size, ElementType dtype, const Device& device, int32_t num_threads);
std::unique_ptr<Ceiling> MakeCopy(int64_t bytes, const Device& device, int32_t num_threads);
MachineRooms GpuRooms();

}  // namespace on_torch

struct TorchLibrary {
  decltype(&on_torch::OpenTransformer) open_transformer;
  decltype(&on_torch::CapturedType) captured_type;
  decltype(&on_torch::MakeReferenceAttention) make_reference_attention;
  decltype(&on_torch::MakeMatrixProduct) make_matrix_product;
  decltype(&on_torch::MakeCopy) make_copy;
  decltype(&on_torch::GpuRooms) gpu_rooms;
};

// The GPUs that LibTorch can use, by their numbers, and those that it cannot. Throws FailedError.
MachineRooms GpuRooms();

// The only name that headscope_torch shows; it returns a table that lasts as long as the process.
inline constexpr char kTorchLibraryFile[] = "libheadscope_torch.so";
inline constexpr char kTorchLibraryEntry[] = "HeadscopeTorchLibrary";
using TorchLibraryEntry = const TorchLibrary*();

}  // namespace headscope::model
