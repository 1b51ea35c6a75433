// SPDX-License-Identifier: Apache-2.0
#include "trace/hdf5_handle.h"

#include <string_view>

#include "base/errors.h"
#include "data/trace_schema.h"

namespace headscope::data {
namespace {

std::recursive_mutex& Mutex() {
  // Never destroyed: a detached thread may still read a trace while the process ends.
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

void Initialise() {
  // HDF5's own exit handler flushes every open file; after a failed flush that ends in a segmentation fault. All files
  // are closed here.
  H5dont_atexit();
  H5open();
  H5PLset_loading_state(0);  // a trace must not be able to load code
}

herr_t KeepReason(unsigned, const H5E_error2_t* error, void* out) {
  auto& reason = *static_cast<std::string*>(out);
  const std::string_view text = error->desc != nullptr ? error->desc : "";
  if (reason.empty()) {
    reason = text;
  }
  constexpr std::string_view kMark = "error message = '";
  if (const size_t at = text.find(kMark); at != std::string_view::npos) {
    const std::string_view rest = text.substr(at + kMark.size());
    reason = rest.substr(0, rest.find('\''));
    return 1;
  }
  return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(Mutex()) {
  static const bool initialised = (Initialise(), true);
  (void)initialised;
  // The error stack belongs to the thread in a thread-safe build, so every thread has to be silenced.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string Hdf5Reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, KeepReason, &reason);
  return reason.empty() ? "unknown reason" : reason;
}

// Whether a call of the system to read or write failed: the others are HDF5's own.
static bool IsOfTheDisk() {
  const auto look = [](unsigned, const H5E_error2_t* entry, void* found) -> herr_t {
    if (entry->maj_num == H5E_IO) *static_cast<bool*>(found) = true;
    return 0;
  };
  bool found = false;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look, &found);
  return found;
}

hid_t Require(hid_t result, const std::string& action) {
  if (result < 0) {
    throw FailedError({.problem = action + " failed: " + Hdf5Reason(), .remedy = IsOfTheDisk() ? kRemedyOfDisk : ""});
  }
  return result;
}

}  // namespace headscope::data
