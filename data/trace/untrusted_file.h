// SPDX-License-Identifier: Apache-2.0
// An HDF5 file that somebody else may have made. Its metadata is read by a process without rights (contents_process.h);
// what that says is checked here before any data is read, and the data is read here, without HDF5.
//
// Every refusal is a BadInputError "<file>: <field>: <what is wrong>; <remedy>". After the constructor everything may
// be called from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error_with_help.h"
#include "base/errors.h"
#include "trace/contents.h"

namespace headscope::data {

// What is read of a file, over what it takes on the disk: file systems compress, and have rows of zeros.
inline constexpr uint64_t kMostPerStoredByte = 16;
// Compressed numbers may all be zero, which a small file unpacks to much; so up to here they may be any multiple of it.
// A file that lies costs no more than that.
inline constexpr uint64_t kMostUnpackedBytes = uint64_t{1} << 30;
// A deflated stream holds at most 258 bytes in two bits (RFC 1951): what claims more does not unpack.
inline constexpr uint64_t kMostPerPackedByte = 1032;

// What messages call a kind of file, and what they advise.
struct UntrustedFileKind {
  const char* noun;     // "a trace"
  const char* not_one;  // what to do when the file is something else
  const char* damaged;  // what to do when it is one that no longer reads
  Help help;            // what writes one
};
inline constexpr UntrustedFileKind kTraceFile{"a trace", "open a trace that headscope wrote",
                                              "the file is damaged or was not written by headscope: capture it again",
                                              Help::kCapture};

// A dataset whose description passed the checks. Items lie along the growing axis; all axes before it together count
// its rows (a head of a layer).
struct CheckedDataset {
  std::string name;  // path inside the file, for messages
  std::vector<int64_t> extents;
  size_t axis = 0;
  int64_t item_bytes = 0;
  int64_t num_items = 0;   // of a row
  int64_t part_items = 0;  // of a row, that lie together and share a checksum; all when the dataset is not chunked
  int64_t parts_per_row = 0;
  const StoredDataset* stored = nullptr;
  std::unique_ptr<std::atomic<bool>[]> verified;  // chunks whose checksum was right
};

class UntrustedFile {
 public:
  // Opens read-only, also while a writer streams into the file or after it was killed. BadInputError when the file
  // cannot be opened at all, FailedError when the process that reads its metadata cannot be started.
  explicit UntrustedFile(const std::string& path, const UntrustedFileKind& kind = kTraceFile);
  // With a table of contents from elsewhere: for tests.
  UntrustedFile(const std::string& path, const UntrustedFileKind& kind, Contents contents);
  ~UntrustedFile();
  UntrustedFile(const UntrustedFile&) = delete;
  UntrustedFile& operator=(const UntrustedFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Bytes on the disk: less than size() when the file has holes.
  int64_t stored_size() const { return stored_size_; }

  // A group by its path ("" is the root). Refuses groups that contain soft, external or user-defined links.
  const StoredGroup& Group(const std::string& path) const;

  // A dataset of exactly this type and rank. `axis` is the growing one. Refuses data in other files, filters other than
  // the checksum (and before it, where numbers grow by rows of heads, shuffle and deflate), huge chunks, and extents
  // that the file cannot hold.
  CheckedDataset Dataset(const StoredGroup& group, const std::string& name, StoredKind type, int rank,
                         size_t axis) const;
  // Its first `used` items of every row are there, inside the file, and nobody else's; `layout` is the only one that
  // headscope gives it. To be called once for every dataset before it is read.
  void RequireStored(CheckedDataset& dataset, int64_t used, StoredLayout layout);

  // Items [begin, end) of a row, as they are in the file. The checksum of a chunk is looked at when the chunk begins
  // before `checked_end`.
  void Read(const CheckedDataset& dataset, int64_t row, int64_t begin, int64_t end, int64_t checked_end,
            void* out) const;
  // Fixed-length text in a scalar dataset.
  std::string TextDataset(const StoredGroup& group, const std::string& name, int64_t max_bytes);

  // Attributes: fixed-length text, a number of exactly the named type, a list of 32-bit integers or fp32 numbers.
  std::string Text(const StoredGroup& group, const std::string& name) const;
  int32_t Integer32(const StoredGroup& group, const std::string& name) const;
  int64_t Integer64(const StoredGroup& group, const std::string& name) const;
  float Float(const StoredGroup& group, const std::string& name) const;
  bool Boolean(const StoredGroup& group, const std::string& name) const;
  std::vector<int32_t> Integers(const StoredGroup& group, const std::string& name, int64_t max_count) const;
  std::vector<float> Floats(const StoredGroup& group, const std::string& name, int64_t max_count) const;
  static bool HasAttribute(const StoredGroup& group, const std::string& name);
  static bool HasDataset(const StoredGroup& group, const std::string& name);

  // Throws BadInputError "<path>: <field>: <problem>; <remedy>". Without a remedy: what a damaged file of the kind
  // needs.
  [[noreturn]] void Refuse(const std::string& field, const std::string& problem, const std::string& remedy) const;
  [[noreturn]] void Refuse(const std::string& field, const std::string& problem) const;
  // The file is of another kind, or of none.
  [[noreturn]] void RefuseKind(const std::string& field, const std::string& problem) const;

 private:
  void Open();
  void Measure();
  const StoredDataset& Find(const StoredGroup& group, const std::string& name) const;
  // What is wrong with a file that HDF5 does not read, for `reason`, and the remedy.
  Fault Unreadable(const std::string& reason) const;
  std::string SizeInWords() const;
  void RequireChunkShape(const CheckedDataset& dataset) const;
  // A place in the file.
  struct Place {
    uint64_t address = 0, bytes = 0;
  };
  // `data_bytes`: what all of the places together are once they are read, more than their own where they are
  // compressed.
  void Claim(const CheckedDataset& dataset, const std::vector<Place>& places, uint64_t data_bytes);
  void ReadPart(const CheckedDataset& dataset, int64_t part, int64_t first_byte, int64_t bytes, bool verify,
                char* out) const;
  void ReadBytes(const CheckedDataset& dataset, uint64_t address, char* out, int64_t bytes) const;
  const StoredAttribute& Attribute(const StoredGroup& group, const std::string& name, size_t rank) const;
  // Its bytes, 4 for each entry.
  const std::string& List(const StoredGroup& group, const std::string& name, StoredKind type, const char* type_name,
                          int64_t max_count) const;
  void ReadScalar(const StoredGroup& group, const std::string& name, StoredKind type, void* out, size_t bytes) const;

  UntrustedFileKind kind_;
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  int64_t stored_size_ = 0;
  int64_t declared_size_ = 0;  // by its superblock; 0: unknown
  Contents contents_;
  std::vector<std::pair<uint64_t, uint64_t>> claimed_;  // [address, end) of all data that is read, in rising order
  uint64_t claimed_bytes_ = 0, unpacked_bytes_ = 0;     // once read: of all of it, of what is compressed
};

// "a variable-length string", "an integer type": what messages call a type.
const char* ClassName(StoredClass type_class);

}  // namespace headscope::data
