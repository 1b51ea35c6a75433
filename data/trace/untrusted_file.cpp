// SPDX-License-Identifier: Apache-2.0
#include "trace/untrusted_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "data/trace_schema.h"
#include "trace/contents_process.h"

namespace headscope::data {
namespace {

constexpr int64_t kMaxChunkBytes = int64_t{16} << 20;
constexpr uint64_t kHugeExtent = uint64_t{4} << 30;
constexpr uint64_t kHugeRatio = 1000;
constexpr uint64_t kMostAddress = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

[[noreturn]] void RefuseAsOther(const std::string& path, const std::string& field, const std::string& problem,
                                const UntrustedFileKind& kind) {
  throw ErrorWithHelp<BadInputError>({.file = path, .field = field, .problem = problem, .remedy = kind.not_one},
                                     kind.help);
}

// Our files start with the HDF5 signature and version 3 of the superblock, the one that headscope writes, without a
// user's block in front of it and without the extensions that other programs add.
//
// Returns the end of the file when it was last flushed or closed, for messages; 0 where the superblock is cut.
int64_t RequireSuperblock(const std::string& path, int descriptor, int64_t size, const UntrustedFileKind& kind) {
  constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  constexpr size_t kVersion = 8, kWidths = 9, kBase = 12, kExtension = 20, kEndOfFile = 28, kBytes = 36;
  std::array<unsigned char, kBytes> bytes{};
  const ssize_t got = pread(descriptor, bytes.data(), bytes.size(), 0);
  if (got <= static_cast<ssize_t>(kSignature.size()) ||
      std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) != 0) {
    RefuseAsOther(path, "", "is not an HDF5 file (" + std::to_string(size) + " bytes)", kind);
  }
  if (bytes[kVersion] != 3) {
    RefuseAsOther(path, "",
                  "superblock version " + std::to_string(bytes[kVersion]) + ": " + kind.noun + " has version 3", kind);
  }
  if (got < static_cast<ssize_t>(kBytes)) return 0;
  const auto number = [&](size_t at) {
    uint64_t value = 0;
    for (size_t i = at + 8; i-- > at;) value = value << 8 | bytes[i];
    return value;
  };
  if (bytes[kWidths] != 8 || bytes[kWidths + 1] != 8 || number(kBase) != 0 || number(kExtension) != kNoAddress) {
    throw BadInputError({.file = path,
                         .field = "superblock",
                         .problem = std::string("is of a kind that ") + kind.noun + " never has",
                         .remedy = kind.damaged});
  }
  return number(kEndOfFile) > kMostAddress ? 0 : static_cast<int64_t>(number(kEndOfFile));
}

uint64_t SizeOf(StoredKind kind) {
  switch (kind) {
    case StoredKind::kUint8:
    case StoredKind::kInt8:
    case StoredKind::kBoolean:
    case StoredKind::kPhase:
      return 1;
    case StoredKind::kFloat16:
    case StoredKind::kBFloat16:
      return 2;
    case StoredKind::kInt32:
    case StoredKind::kFloat32:
      return 4;
    case StoredKind::kInt64:
    case StoredKind::kFloat64:
      return 8;
    case StoredKind::kOther:
    case StoredKind::kText:
      break;
  }
  return 0;
}

// HDF5's words, which may quote the file.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.substr(0, 200);
}

}  // namespace

UntrustedFile::UntrustedFile(const std::string& path, const UntrustedFileKind& kind) : kind_(kind), path_(path) {
  Open();
  std::string problem;
  try {
    contents_ = ReadContents(descriptor_, stored_size_, &problem);
    Measure();  // a living writer may have lengthened the file, and the table then tells of places that were beyond its
                // end
  } catch (...) {
    close(descriptor_);
    throw;
  }
  if (problem.empty() && contents_.failure.empty()) return;
  close(descriptor_);
  throw BadInputError(Unreadable(problem.empty() ? Printable(contents_.failure) : "the HDF5 library " + problem));
}

UntrustedFile::UntrustedFile(const std::string& path, const UntrustedFileKind& kind, Contents contents)
    : kind_(kind), path_(path) {
  Open();
  contents_ = std::move(contents);
}

UntrustedFile::~UntrustedFile() {
  close(descriptor_);
}

void UntrustedFile::Open() {
  struct stat status {};
  // Before it is opened, because opening a pipe or a device may wait or do something.
  if (stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    RefuseKind("", "is not a regular file");
  }
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    throw BadInputError({.file = path_,
                         .problem = std::string("cannot be opened (") + std::strerror(error) + ")",
                         .remedy = "check the name and the permissions"});
  }
  Measure();
  try {
    declared_size_ = RequireSuperblock(path_, descriptor_, size_, kind_);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

void UntrustedFile::Measure() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return;
  size_ = status.st_size;
  // A file system that counts no blocks has no holes to hide either.
  constexpr int64_t kBlock = 512;
  stored_size_ = status.st_blocks == 0 ? size_ : std::min<int64_t>(size_, status.st_blocks * kBlock);
}

Fault UntrustedFile::Unreadable(const std::string& reason) const {
  if (size_ < declared_size_) {
    return {.file = path_,
            .problem = "holds " + std::to_string(size_) + " bytes of " + std::to_string(declared_size_) +
                       ": it was cut short, as by a copy or a download that ended early",
            .remedy = "copy the whole file again"};
  }
  return {.file = path_, .problem = "cannot be read as HDF5 (" + reason + ")", .remedy = kind_.damaged};
}

std::string UntrustedFile::SizeInWords() const {
  if (stored_size_ == size_) return std::to_string(size_) + " bytes";
  return std::to_string(size_) + " bytes, " + std::to_string(stored_size_) + " of them on the disk";
}

void UntrustedFile::Refuse(const std::string& field, const std::string& problem, const std::string& remedy) const {
  throw BadInputError({.file = path_, .field = field, .problem = problem, .remedy = remedy});
}

void UntrustedFile::Refuse(const std::string& field, const std::string& problem) const {
  throw ErrorWithHelp<BadInputError>({.file = path_, .field = field, .problem = problem, .remedy = kind_.damaged},
                                     kind_.help);
}

void UntrustedFile::RefuseKind(const std::string& field, const std::string& problem) const {
  RefuseAsOther(path_, field, problem, kind_);
}

const StoredGroup& UntrustedFile::Group(const std::string& path) const {
  const std::string field = "/" + path;
  const StoredGroup* group = contents_.Group(path);
  if (group == nullptr) {
    const StoredGroup* root = contents_.Group("");
    const bool dataset = root != nullptr && std::any_of(root->datasets.begin(), root->datasets.end(),
                                                        [&](const StoredDataset& one) { return one.name == path; });
    if (!dataset) RefuseKind(field, "is missing");
    Refuse(field, "is not a readable group");
  }
  if (!group->readable) Refuse(field, "is not a readable group");
  if (group->crowded) Refuse(field, "has an implausible number of members");
  if (!group->foreign_link.empty()) {
    Refuse(field, "member " + Quoted(group->foreign_link) + " is a soft or external link or a second name, which " +
                      kind_.noun + " never has");
  }
  return *group;
}

const StoredDataset& UntrustedFile::Find(const StoredGroup& group, const std::string& name) const {
  const std::string field = group.path.empty() ? "/" + name : "/" + group.path + "/" + name;
  for (const StoredDataset& dataset : group.datasets) {
    if (dataset.name != name) continue;
    if (!dataset.readable) Refuse(field, "is not a readable dataset");
    return dataset;
  }
  const bool is_group = contents_.Group(field.substr(1)) != nullptr;
  Refuse(field, is_group ? "is not a readable dataset" : "is missing");
}

CheckedDataset UntrustedFile::Dataset(const StoredGroup& group, const std::string& name, StoredKind type, int rank,
                                      size_t axis) const {
  const StoredDataset& stored = Find(group, name);
  CheckedDataset checked;
  checked.name = group.path.empty() ? "/" + name : "/" + group.path + "/" + name;
  checked.stored = &stored;
  const auto refuse = [&](const std::string& problem) { Refuse(checked.name, problem); };
  if (stored.type.kind != type || stored.type.size == 0 ||
      (type != StoredKind::kText && stored.type.size != SizeOf(type))) {
    refuse(std::string("has ") + ClassName(stored.type.type_class) + " that " + kind_.noun + " does not use there");
  }
  if (stored.layout == StoredLayout::kElsewhere) {
    refuse(std::string("keeps its data in other files, which ") + kind_.noun + " never does");
  }
  // Vectors alone are worth compressing; they lie behind the axes of layers and heads.
  if (axis < 2 || !stored.IsCompressed()) {
    for (const int32_t filter : stored.filters) {
      if (filter != kChecksumFilter) {
        refuse("uses filter " + std::to_string(filter) + ", and " + kind_.noun + " only uses the checksum (filter 3)" +
               (axis < 2 ? "" : ", or 2, 1 and 3"));
      }
    }
  }
  if (stored.extents.size() != static_cast<size_t>(rank)) {
    refuse("has " + std::to_string(stored.extents.size()) + " dimensions instead of " + std::to_string(rank));
  }
  // Products of hostile extents overflow 64 bits; they stop at the greatest address.
  const auto times = [](uint64_t a, uint64_t b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? kMostAddress : std::min(product, kMostAddress);
  };
  uint64_t bytes = stored.type.size;
  bool empty = bytes == 0;
  for (const uint64_t extent : stored.extents) {
    if (extent > kMostAddress / 2) refuse("declares an extent of " + std::to_string(extent));
    empty = empty || extent == 0;
    bytes = times(bytes, std::max<uint64_t>(extent, 1));
    checked.extents.push_back(static_cast<int64_t>(extent));
  }
  if (!empty && bytes > kHugeExtent && bytes / kHugeRatio > static_cast<uint64_t>(stored_size_)) {
    refuse("declares " + std::to_string(bytes) + " bytes in a file of " + SizeInWords());
  }
  uint64_t item_bytes = stored.type.size;
  for (size_t i = axis + 1; i < stored.extents.size(); ++i) item_bytes = times(item_bytes, stored.extents[i]);
  checked.axis = axis;
  checked.item_bytes = static_cast<int64_t>(item_bytes);
  checked.num_items = rank == 0 ? 1 : checked.extents[axis];
  checked.part_items = std::max<int64_t>(1, checked.num_items);
  checked.parts_per_row = 1;
  if (!stored.chunk.empty()) {
    uint64_t chunk_bytes = stored.type.size;
    for (const uint64_t items : stored.chunk) chunk_bytes = times(chunk_bytes, items);
    if (chunk_bytes > kMaxChunkBytes) refuse("has chunks of " + std::to_string(chunk_bytes) + " bytes");
    if (stored.chunk.size() != stored.extents.size() || stored.chunk[axis] == 0) refuse("has an unreadable chunk size");
    checked.part_items = static_cast<int64_t>(stored.chunk[axis]);
    checked.parts_per_row = (checked.num_items + checked.part_items - 1) / checked.part_items;
  } else if (!empty && bytes > static_cast<uint64_t>(size_)) {
    refuse("declares " + std::to_string(bytes) + " bytes in a file of " + SizeInWords());
  }
  return checked;
}

const char* ClassName(StoredClass type_class) {
  switch (type_class) {
    case StoredClass::kVariableText:
      return "a variable-length string";
    case StoredClass::kVariableLength:
      return "a variable-length type";
    case StoredClass::kReference:
      return "a reference";
    case StoredClass::kCompound:
      return "a compound type";
    case StoredClass::kOpaque:
      return "an opaque type";
    case StoredClass::kArray:
      return "an array type";
    case StoredClass::kText:
      return "a fixed-length string";
    case StoredClass::kEnumeration:
      return "an enumeration";
    case StoredClass::kFloat:
      return "a floating-point type";
    case StoredClass::kInteger:
      return "an integer type";
    case StoredClass::kUnknown:
      break;
  }
  return "an unknown type";
}

}  // namespace headscope::data
