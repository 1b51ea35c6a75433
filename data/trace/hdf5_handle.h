// SPDX-License-Identifier: Apache-2.0
// The only door to HDF5: owned identifiers, one lock, quiet errors.
//
// HDF5 is called under a Hdf5Lock alone, because a build of it may or may not be thread-safe. Public functions of the
// data room take it for their whole duration, but for those of TraceWriter, which copies, sums up and writes chunks
// without it.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace headscope::data {

// Initialises HDF5 on first use (no plug-ins, no error printing, no clean-up at exit) and serialises all use of it.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

// Owns one HDF5 identifier. Move only; Release gives the identifier up without closing it.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(other.Release()) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      Reset();
      id_ = other.Release();
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { Reset(); }

  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  hid_t Release() { return std::exchange(id_, H5I_INVALID_HID); }
  // Closes now; the caller learns whether that worked, which the destructor cannot tell.
  herr_t Reset() {
    const hid_t id = Release();
    return id >= 0 ? Close(id) : 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using FileHandle = Handle<H5Fclose>;
using GroupHandle = Handle<H5Gclose>;
using DatasetHandle = Handle<H5Dclose>;
using AttributeHandle = Handle<H5Aclose>;
using SpaceHandle = Handle<H5Sclose>;
using TypeHandle = Handle<H5Tclose>;
using PropertyHandle = Handle<H5Pclose>;

// What HDF5 says about the last failure: the operating system's words where there are any, else its innermost
// description.
std::string Hdf5Reason();

// What helps where a disk takes no more.
inline constexpr const char* kRemedyOfDisk = "free some disk space or choose another folder";

// Throws FailedError "<action> failed: <reason>" when `result` is negative; returns it otherwise.
hid_t Require(hid_t result, const std::string& action);

}  // namespace headscope::data
