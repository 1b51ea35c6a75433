// SPDX-License-Identifier: Apache-2.0
#include "network/torch_library.h"

#include <dlfcn.h>

#include <string>

#include "base/device.h"
#include "base/errors.h"

namespace headscope::model {
namespace {

const TorchLibrary* Load() {
  // By its name: the program's own search path names the folder that it was built into. Lazily: LibTorch's 30,000 calls
  // of itself would be looked up first; those of this library, which another LibTorch might lack, are (-z now). One
  // whose parts do not fit together is noticed in the middle of a run.
  void* const library = dlopen(kTorchLibraryFile, RTLD_LAZY | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : dlsym(library, kTorchLibraryEntry);
  if (entry == nullptr) {
    const char* const said = dlerror();
    const std::string reason = said == nullptr ? "no reason is given" : said;
    for (const char* no_memory :
         {"failed to map segment", "annot allocate memory", "out of memory", "cannot map zero-fill"}) {
      if (reason.find(no_memory) == std::string::npos) continue;
      throw DeviceError(
          {.problem = "LibTorch, which runs the model, cannot be loaded: the memory is used up (" + reason + ")",
           .remedy = "close other programs or raise the limit (ulimit -v)"});
    }
    throw FailedError({.problem = "LibTorch, which runs the model, cannot be loaded (" + reason + ")",
                       .remedy = "build headscope on this machine: scripts/run installs LibTorch and builds"});
  }
  return reinterpret_cast<TorchLibraryEntry*>(entry)();
}

// Loaded once, by whoever asks first, and never unloaded: its operators stay registered. After a failure the next call
// tries again. Throws FailedError.
const TorchLibrary& Torch() {
  static const TorchLibrary* const library = Load();
  return *library;
}

}  // namespace

std::unique_ptr<Transformer> OpenTransformer(const std::string& model_dir, const SessionOptions& options,
                                             const ProgressFunction& progress, const std::stop_token& stop) {
  return Torch().open_transformer(model_dir, options, progress, stop);
}

ElementType CapturedType(const std::string& model_dir, const SessionOptions& options) {
  return Torch().captured_type(model_dir, options);
}

std::unique_ptr<ReferenceAttention> MakeReferenceAttention(const ReferenceAttentionProblem& problem,
                                                           const Device& device, int32_t num_threads) {
  return Torch().make_reference_attention(problem, device, num_threads);
}

std::unique_ptr<Ceiling> MakeMatrixProduct(int64_t size, ElementType dtype, const Device& device, int32_t num_threads) {
  return Torch().make_matrix_product(size, dtype, device, num_threads);
}

std::unique_ptr<Ceiling> MakeCopy(int64_t bytes, const Device& device, int32_t num_threads) {
  return Torch().make_copy(bytes, device, num_threads);
}

MachineRooms GpuRooms() {
  return Torch().gpu_rooms();
}

}  // namespace headscope::model
