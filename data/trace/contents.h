// SPDX-License-Identifier: Apache-2.0
// The table of contents of an HDF5 file: what a process without rights found in it (data/contents), handed over as
// bytes.
//
// Nothing in it is specific to traces: it names groups, attributes and datasets, and says where the datasets' bytes lie
// in the file. A newer trace format has more of them, not other ones. Both sides share this description; the reader of
// the bytes trusts nothing in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headscope::data {

// Changes with every change of the bytes; the two programs that exchange them are built together.
inline constexpr uint32_t kContentsVersion = 2;
// An address or a size that is not there.
inline constexpr uint64_t kNoAddress = ~uint64_t{0};
// Limits of what is described; far beyond what headscope writes.
inline constexpr size_t kMaxMembers = 4096;            // of one group, and attributes of one object
inline constexpr size_t kMaxNameBytes = 1024;          // of a member or an attribute
inline constexpr size_t kMaxAttributeBytes = 1 << 16;  // HDF5's own limit of an attribute in an object header
inline constexpr size_t kMaxRank = 32;                 // HDF5's own
inline constexpr size_t kMaxGroupDepth = 4;

// The types that files of headscope are made of, all little-endian.
enum class StoredKind : uint8_t {
  kOther = 0,
  kText,  // of fixed length
  kUint8,
  kInt8,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kBoolean,  // int8 enumeration FALSE, TRUE
  kPhase,    // int8 enumeration PROMPT, DECODE
  kLast = kPhase,
};
// What messages call a type that is none of them.
enum class StoredClass : uint8_t {
  kUnknown = 0,
  kInteger,
  kFloat,
  kText,
  kVariableText,
  kVariableLength,
  kReference,
  kCompound,
  kOpaque,
  kArray,
  kEnumeration,
  kLast = kEnumeration,
};
struct StoredType {
  StoredKind kind = StoredKind::kOther;
  StoredClass type_class = StoredClass::kUnknown;
  uint64_t size = 0;  // bytes of one element
};

struct StoredAttribute {
  std::string name;
  StoredType type;
  bool readable = false;  // its bytes are below
  std::vector<uint64_t> extents;
  std::string bytes;
};

enum class StoredLayout : uint8_t {
  kOther = 0,    // nothing that headscope writes: compact, or chunks under another index
  kContiguous,   // address, stored_bytes
  kChunked,      // chunk, chunk_addresses
  kElsewhere,    // in other files
  kTooManyParts  // chunked, with more chunks than the file can hold
};
// HDF5's numbers of filters in the order in which they are used: the checksum alone, and before it bytes of one rank
// put together (shuffle) and compressed (deflate). Nothing else is read.
inline constexpr int32_t kChecksumFilter = 3;
inline const std::vector<int32_t> kPlainFilters = {kChecksumFilter};
inline const std::vector<int32_t> kCompressedFilters = {2, 1, kChecksumFilter};

struct StoredDataset {
  std::string name;       // without the group's path
  bool readable = false;  // HDF5 could describe it; nothing below counts otherwise
  StoredType type;
  std::vector<uint64_t> extents;
  std::vector<int32_t> filters;  // HDF5's numbers
  StoredLayout layout = StoredLayout::kOther;
  uint64_t address = kNoAddress;
  uint64_t stored_bytes = 0;
  std::vector<uint64_t> chunk;            // extents of one chunk
  uint64_t chunk_bytes = 0;               // of every chunk in the file, its checksum included; compressed: before that
  std::vector<uint64_t> chunk_addresses;  // in row-major order of the chunks; kNoAddress: not written
  std::vector<uint64_t> chunk_sizes;      // of compressed ones in the file, in the same order; else empty

  bool IsCompressed() const { return filters == kCompressedFilters; }
};

struct StoredGroup {
  std::string path;  // without slashes at the ends; "" is the root
  bool readable = false;
  bool crowded = false;      // more members or attributes than kMaxMembers
  std::string foreign_link;  // the first member that is a soft, an external or a second hard link; "" for none
  std::vector<StoredAttribute> attributes;
  std::vector<StoredDataset> datasets;
};

struct Contents {
  std::string failure;          // HDF5's reason not to read the file at all; "" when it did
  bool without_filter = false;  // the kernel could not restrict the process's system calls
  std::vector<StoredGroup> groups;

  const StoredGroup* Group(const std::string& path) const;
};

// Size of the fixed part at the beginning, which tells the length of the whole.
inline constexpr size_t kContentsHeaderBytes = 16;

std::string EncodeContents(const Contents& contents);
// Length of the whole from its first kContentsHeaderBytes bytes; 0 when these are no table of contents of this version.
uint64_t ContentsLength(std::span<const char> header);
// Takes any bytes and memory in proportion to them; false when they are no table of contents.
bool DecodeContents(std::span<const char> bytes, Contents* contents);

}  // namespace headscope::data
