// An HDF5 file that somebody else may have made. Everything is checked before any data is read: HDF5 follows links into
// other files, loads plug-ins and allocates what a file declares, so nothing is opened by a path and nothing of an
// unexpected type is touched.
//
// Every refusal is a BadTraceError "<file>: <field>: <what is wrong>; <remedy>".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/hdf5_handle.h"

namespace headscope::data {

// What messages call a kind of file, and what they advise.
struct UntrustedFileKind {
  const char* noun;     // "a trace"
  const char* not_one;  // what to do when the file is something else
  const char* damaged;  // what to do when it is one that no longer reads
};
inline constexpr UntrustedFileKind kTraceFile{"a trace", "open a file that headscope capture wrote",
                                              "the file is damaged or was not written by headscope: capture it again"};

// A dataset that passed the checks.
struct CheckedDataset {
  DatasetHandle handle;
  std::string name;  // path inside the file, for messages
  std::vector<int64_t> extents;
  int64_t chunk_items = 0;  // along the growing axis asked for; 0 when the dataset is not chunked
};

class UntrustedFile {
 public:
  // Opens read-only, also while a writer streams into the file or after it was killed. TraceError when the file cannot
  // be opened at all.
  explicit UntrustedFile(const std::string& path, const UntrustedFileKind& kind = kTraceFile);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

  // A group directly below the root ("" is the root itself). Refuses groups that contain soft, external or user-defined
  // links.
  GroupHandle Group(const std::string& name) const;

  // A dataset of exactly `type` and `rank`. `axis` is the growing one. Refuses virtual and external storage, filters
  // other than the checksum, huge chunks, and extents that the file cannot hold.
  CheckedDataset Dataset(const GroupHandle& group, const std::string& group_name, const std::string& name, hid_t type,
                         int rank, size_t axis) const;

  // Attributes: fixed-length text, a number of exactly the named type, a list of 32-bit integers.
  std::string Text(const GroupHandle& group, const std::string& name) const;
  int32_t Integer32(const GroupHandle& group, const std::string& name) const;
  int64_t Integer64(const GroupHandle& group, const std::string& name) const;
  float Float(const GroupHandle& group, const std::string& name) const;
  bool Boolean(const GroupHandle& group, const std::string& name) const;
  std::vector<int32_t> Integers(const GroupHandle& group, const std::string& name, int64_t max_count) const;

  // A whole dataset of one axis or none, already checked.
  void ReadAll(const CheckedDataset& dataset, hid_t memory_type, int64_t count, void* out) const;
  // Fixed-length text in a scalar dataset.
  std::string TextDataset(const GroupHandle& group, const std::string& group_name, const std::string& name,
                          int64_t max_bytes) const;

  // Throws BadTraceError "<path>: <field>: <problem>".
  [[noreturn]] void Refuse(const std::string& field, const std::string& problem) const;
  // After a read of `field` failed: with HDF5's reason, or with the bytes that a file that was cut short lacks.
  [[noreturn]] void RefuseUnread(const std::string& field) const;

 private:
  // What is wrong with a file that HDF5 does not read, for `reason`, and the remedy.
  std::string Unreadable(const std::string& reason) const;
  AttributeHandle Attribute(const GroupHandle& group, const std::string& name, int rank) const;
  void ReadScalar(const GroupHandle& group, const std::string& name, hid_t file_type, hid_t memory_type,
                  void* out) const;

  UntrustedFileKind kind_;
  std::string path_;
  int64_t size_ = 0;
  int64_t declared_size_ = 0;  // by its superblock; 0: unknown
  bool streaming_ = false;     // opened beside a living or killed writer
  FileHandle file_;
};

}  // namespace headscope::data
