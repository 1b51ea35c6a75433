// SPDX-License-Identifier: Apache-2.0
// The HDF5 file driver of a trace that is being written: HDF5's own for this system, except that HDF5 may be asked for
// a chunk's place without writing it there.
//
// H5Dwrite_chunk finds a place, writes, and enters the place into the dataset's index, all of it under the one lock of
// HDF5. What takes long is the writing: chunks of several traces would be written one at a time.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "trace/fletcher32.h"
#include "trace/hdf5_handle.h"

namespace headscope::data {

// Lets files that are opened with `access` be written by this driver. Needs Hdf5Lock.
void UseChunkDriver(hid_t access);

// The beginning of a chunk that lies in the file, with zeros behind it.
struct BegunChunk {
  off_t place = -1;  // -1: none does
  size_t bytes = 0;
};

// A chunk as it is stored: what it holds, and the checksum of that behind it.
class StoredChunk {
 public:
  // `values` must live as long as this; they are summed up here.
  StoredChunk(const void* values, size_t bytes) : StoredChunk(values, bytes, bytes) {}
  // One that has begun: of its `bytes` bytes the first `used`, an even number of them, lie at `values`; the others are
  // zeros. What the file has already is not written again: zeros behind its end, and of `before`, this chunk when it
  // was written last, what is as it was.
  StoredChunk(const void* values, size_t used, size_t bytes, const BegunChunk& before = {});

  // Has `hand_over(values, size)` call H5Dwrite_chunk with these two, and keeps the place that HDF5 chose; fewer bytes
  // than `size` lie at `values`, and HDF5 reads none of them. Of that file nothing else may be asked before Write: a
  // chunk lies in the file before anything that names it does. Needs Hdf5Lock. Throws FailedError "<action> failed".
  void FindPlace(const std::function<herr_t(const void* values, size_t size)>& hand_over, const std::string& action);
  // Writes it to that place. Needs no lock. Throws likewise.
  void Write(const std::string& action);
  BegunChunk begun() const { return {place_, used_}; }  // behind Write

 private:
  friend struct ChunkDriver;
  size_t size() const { return bytes_ + checksum_.size(); }
  bool WriteNow();  // false: errno says why

  const void* values_;
  size_t used_, bytes_;
  BegunChunk before_;
  std::array<char, kChecksumBytes> checksum_;
  int descriptor_ = -1;  // of the file; -1: not asked to be written
  off_t place_ = 0;
  bool is_behind_end_ = false;  // nothing was ever written at place_
  bool written_ = false;
};

}  // namespace headscope::data
