// SPDX-License-Identifier: Apache-2.0
#include "network/torch_runtime.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/add.h>
#include <ATen/ops/item.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "base/device.h"
#include "base/errors.h"
#include "model/safetensors.h"
#include "network/torch_library.h"
#include "network/usable_rooms.h"

namespace headscope::model {
namespace {

constexpr std::string_view kUseCpu = "use the CPU";

// libtorch_cuda.so lies beside the libtorch_cpu.so that this process runs with; loading it registers the CUDA
// operators.
void LoadCudaLibrary(const Device& wanted) {
  static void* library = nullptr;
  if (library != nullptr) return;
  Dl_info cpu_half{};
  const auto address = reinterpret_cast<const void*>(&at::set_num_threads);
  if (dladdr(address, &cpu_half) == 0)
    throw DeviceError({.field = "device",
                       .value = DeviceText(wanted),
                       .problem = "LibTorch's folder was not found",
                       .remedy = std::string(kUseCpu)});
  const std::filesystem::path path = std::filesystem::path(cpu_half.dli_fname).parent_path() / "libtorch_cuda.so";
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw DeviceError({.field = "device",
                       .value = DeviceText(wanted),
                       .problem = std::string("LibTorch's CUDA library cannot be loaded (") + dlerror() + ")",
                       .remedy = "install a torch package with CUDA or " + std::string(kUseCpu)});
  }
}

// LibTorch has two teams, OpenMP's and that of its own thread pool, both of which this thread is a part of; one more
// thread writes what is recorded.
void RequireThreads(int32_t team) {
  const int64_t needed = 2 * (int64_t{team} - 1) + 1;
  std::mutex gate;
  std::vector<std::thread> threads;
  std::string reason;
  {
    const std::lock_guard closed(gate);  // all of them are there at the same time
    try {
      threads.reserve(static_cast<size_t>(needed));
      while (static_cast<int64_t>(threads.size()) < needed) {
        threads.emplace_back([&gate] { const std::lock_guard open(gate); });
      }
    } catch (const std::exception& error) {
      reason = error.what();
    }
  }
  const size_t started = threads.size();
  for (std::thread& thread : threads) thread.join();
  if (static_cast<int64_t>(started) == needed) return;
  throw DeviceError(
      {.problem = "computing with " + std::to_string(team) + (team == 1 ? " thread" : " threads") + " takes " +
                  std::to_string(needed) + (needed == 1 ? " helper thread" : " helper threads") +
                  " besides the main one, and the system lets headscope start " +
                  (started == 0 ? std::string("none") : "only " + std::to_string(started)) + " (" + reason + ")",
       .remedy = std::string("close other programs, raise the limit (ulimit -u or -v, or the container's process "
                             "limit)") +
                 (team > 1 ? " or use one thread" : "")});
}

// Runs `work`; what it throws says what is the matter in one line, without LibTorch's trace of C++ frames.
template <typename Work>
void FirstLineOf(const std::string& problem, const Work& work) {
  const auto fail = [&](std::string_view what) {
    throw FailedError(problem + " (" + std::string(what.substr(0, what.find('\n'))) + ")");
  };
  try {
    work();
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

}  // namespace

MachineRooms on_torch::GpuRooms() {
  // CUDA's context, and the workspaces of the libraries above it.
  constexpr int64_t kLibraryBytes = int64_t{1} << 30;
  int available = 0;
  try {
    OpenDevice(CudaDevice(0));
    available = at::detail::getCUDAHooks().deviceCount();
  } catch (const DeviceError& none) {  // no GPU, no driver or no CUDA half: there is none to use
    // Of a machine without a GPU there is nothing to tell.
    if (!HasNvidiaGpu()) return {};
    return {{}, {{CudaDevice(0), none.fault().problem.empty() ? none.what() : none.fault().problem}}};
  }
  return UsableRooms(available, [](int32_t ordinal) {
    // Starts CUDA once. Where it does not start, no GPU can be used, and the model goes to the CPU.
    FirstLineOf("CUDA does not start", [] { at::globalContext().lazyInitDevice(c10::DeviceType::CUDA); });
    int64_t room = 0;
    FirstLineOf("it cannot be asked for its memory", [&] {
      room = FreeMemory(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(ordinal))) - kLibraryBytes;
    });
    // A GPU that is older than those LibTorch was built for has no code to run, which it says when it is asked to.
    FirstLineOf("it computes nothing", [&] {
      const c10::InferenceMode no_gradients;
      const at::Tensor one =
          at::ones({1}, at::TensorOptions(at::kFloat).device(c10::kCUDA, static_cast<c10::DeviceIndex>(ordinal)));
      if (one.add(one).item<float>() != 2) throw std::runtime_error("1 and 1 are not 2");
    });
    return room;
  });
}

int64_t FreeMemory(const c10::Device& gpu) {
  const auto [free_bytes, total] = at::accelerator::getMemoryInfo(gpu.has_index() ? gpu.index() : c10::DeviceIndex{0});
  return static_cast<int64_t>(free_bytes);
}

c10::Device OpenDevice(const Device& wanted) {
  if (!wanted.is_gpu()) return c10::Device(c10::kCPU);
  LoadCudaLibrary(wanted);
  int available = 0;
  try {
    if (at::hasCUDA()) available = at::detail::getCUDAHooks().deviceCount();
  } catch (...) {
    RethrowTorchError("device " + DeviceText(wanted), "");
  }
  if (available == 0) {
    throw DeviceError({.field = "device",
                       .value = DeviceText(wanted),
                       .problem = "no usable NVIDIA GPU or driver was found",
                       .remedy = std::string(kUseCpu)});
  }
  if (wanted.ordinal >= available) {
    throw DeviceError({.field = "device",
                       .value = DeviceText(wanted),
                       .problem = "this machine has " + std::to_string(available) +
                                  (available == 1 ? " GPU, cuda:0" : " GPUs, counted from 0"),
                       .remedy = available == 1 ? "" : "name one of them"});
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(wanted.ordinal)};
}

namespace {

// As the kernels' loops count them (kernels/start_cores.h): in a container, or under taskset, fewer than the machine
// has.
int32_t NumAllowedCores() {
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  return static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

NumberTypes ChooseNumberTypes(std::optional<ElementType> compute, const std::string& stored,
                              const c10::Device& device) {
  if (compute == ElementType::kFloat16)
    throw UsageError({.field = "dtype", .value = "fp16", .problem = "a model runs in fp32 or bf16"});
  if (compute) return {*compute, *compute};
  if (TypeByItself(stored) == ElementType::kFloat32) return {};
  // Matrix products in bf16 run at a quarter of fp32's speed on a CPU without bf16 instructions, and fp32 is never less
  // exact.
  return {device.is_cuda() ? ElementType::kBFloat16 : ElementType::kFloat32, ElementType::kBFloat16};
}

at::ScalarType ScalarTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return at::kFloat;
    case ElementType::kBFloat16:
      return at::kBFloat16;
    case ElementType::kFloat16:
      break;
  }
  return at::kHalf;
}

void SetTorchThreads(int32_t num_threads) {
  const int32_t wanted = num_threads > 0 ? num_threads : NumAllowedCores();
  RequireThreads(wanted);
  // Even where LibTorch has that number already: only this keeps MKL from choosing another by itself, at which the same
  // product might have other bits, and tells threads that start later.
  at::set_num_threads(wanted);
  at::parallel_for(0, wanted, 1, [](int64_t, int64_t) {});  // OpenMP starts its team at its first loop
}

void RethrowTorchError(const std::string& doing, std::string_view smaller) {
  const std::string less(smaller);
  const Fault gpu_full = {
      .problem = doing + ": the GPU's memory is used up",
      .remedy = "free some of it" + (less.empty() ? " or " : ", " + less + ", or ") + std::string(kUseCpu)};
  const Fault host_full = {.problem = doing + ": the memory is used up",
                           .remedy = "close other programs" + (less.empty() ? "" : ", or " + less)};
  try {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw DeviceError(gpu_full);
  } catch (const std::bad_alloc&) {
    throw DeviceError(host_full);
  } catch (const c10::Error& error) {
    const std::string_view what = error.what_without_backtrace();
    const auto says = [&](std::string_view words) { return what.find(words) != std::string_view::npos; };
    // The CPU's allocator reports as a plain error; so do CUDA (no room for a context or a stream) and the libraries
    // above it (no room for their workspaces).
    if (says("DefaultCPUAllocator")) throw DeviceError(host_full);
    if (says("out of memory") || says("_ALLOC_FAILED")) throw DeviceError(gpu_full);
    throw FailedError({.problem = doing + ": " + std::string(what.substr(0, what.find('\n')))});
  }
}

}  // namespace headscope::model
