// SPDX-License-Identifier: Apache-2.0
// LibTorch's threads, and what becomes of its errors: their text carries a trace of C++ frames, which nobody who runs
// headscope can use.
#include "network/torch_runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/errors.h"

namespace headscope::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

const c10::SourceLocation kHere{"Somewhere", "somewhere.cpp", 1};

// Throws what RethrowTorchError makes of what `failing` throws.
template <typename... Smaller>
std::function<void()> Translated(const std::function<void()>& failing, Smaller... smaller) {
  return [failing, smaller...] {
    try {
      failing();
    } catch (...) {
      RethrowTorchError("loading m", smaller...);
    }
  };
}

std::function<void()> Failing(const std::string& text) {
  return [text] { throw c10::Error(kHere, text); };
}

const auto kOneSentence = AllOf(Not(HasSubstr("\n")), Not(HasSubstr("frame")), Not(HasSubstr("Exception raised")));

// MKL is inside LibTorch, which exports its functions without declaring them.
template <typename Function>
Function* OfMkl(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

TEST(TorchThreads, MklDoesNotChooseTheirNumber) {
  if (!at::hasMKL()) GTEST_SKIP() << "this LibTorch has no MKL";
  const auto chooses = OfMkl<int()>("mkl_serv_get_dynamic");
  const auto let_choose = OfMkl<void(int)>("MKL_Set_Dynamic");
  ASSERT_TRUE(chooses != nullptr && let_choose != nullptr);
  let_choose(1);
  ASSERT_EQ(chooses(), 1);
  SetTorchThreads(at::get_num_threads());
  EXPECT_EQ(chooses(), 0);
}

TEST(TorchThreads, ThreadsThatStartLaterHaveTheNumberToo) {
  const auto in_new_thread = [](const auto& work) { std::thread(work).join(); };
  const int wanted = 2;
  SetTorchThreads(wanted);
  in_new_thread([] { at::set_num_threads(wanted + 1); });
  SetTorchThreads(wanted);
  int later = 0;
  in_new_thread([&later] { later = at::get_num_threads(); });
  EXPECT_EQ(later, wanted);
}

TEST(TorchErrors, TheTextThatIsTranslatedHasATrace) {
  EXPECT_THAT(Failing("some failure"), ThrowsMessage<c10::Error>(HasSubstr("Exception raised")));
}

// CUDA without room for a context or a stream, libraries without room for a workspace, LibTorch's own allocator.
TEST(TorchErrors, AFullGpuIsAMissingDeviceHoweverItIsReported) {
  const std::function<void()> reports[] = {
      [] { throw c10::OutOfMemoryError(kHere, "CUDA out of memory. Tried to allocate 2.00 MiB."); },
      Failing("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in the documentation.\n"),
      Failing("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
      Failing("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")};
  for (const std::function<void()>& report : reports) {
    EXPECT_THAT(Translated(report),
                ThrowsMessage<DeviceError>("loading m: the GPU's memory is used up; free some of it, use a shorter "
                                           "prompt or bf16, or use the CPU"));
  }
}

TEST(TorchErrors, RemediesAreThoseOfWhatTheCallerChose) {
  const auto full = Failing("CUDA error: out of memory");
  EXPECT_THAT(Translated(full, ""),
              ThrowsMessage<DeviceError>("loading m: the GPU's memory is used up; free some of it or use the CPU"));
  EXPECT_THAT(Translated(full, "take fewer heads"),
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("take fewer heads"), Not(HasSubstr("prompt")))));
}

TEST(TorchErrors, AFullHostIsAMissingDevice) {
  const auto full = Failing("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.");
  for (const std::function<void()>& report : {full, std::function<void()>([] { throw std::bad_alloc(); })}) {
    EXPECT_THAT(Translated(report), ThrowsMessage<DeviceError>(AllOf(HasSubstr("the memory is used up"), kOneSentence,
                                                                     Not(HasSubstr("GPU")))));
  }
}

TEST(TorchErrors, AnyOtherErrorOfLibTorchKeepsItsSentenceOnly) {
  const auto fault =
      Failing("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported elsewhere.");
  EXPECT_THAT(Translated(fault),
              ThrowsMessage<FailedError>("loading m: CUDA error: an illegal memory access was encountered"));
  try {
    Translated(fault)();
  } catch (const DeviceError&) {
    ADD_FAILURE() << "a fault is no missing device";
  } catch (const std::runtime_error&) {
  }
}

TEST(TorchErrors, ErrorsOfOthersPassAsTheyAre) {
  EXPECT_THAT(Translated([] { throw std::invalid_argument("--length 0"); }),
              ThrowsMessage<std::invalid_argument>("--length 0"));
  EXPECT_THAT(Translated([] { throw BadInputError("config.json: is empty"); }),
              ThrowsMessage<BadInputError>("config.json: is empty"));
}

}  // namespace
}  // namespace headscope::model
