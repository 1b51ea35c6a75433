// SPDX-License-Identifier: Apache-2.0
// The data of a file that somebody else may have made: where it lies, and reading it. No lock: every read is a pread()
// of its own.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errors.h"
#include "data/trace_schema.h"
#include "trace/compressed_chunk.h"
#include "trace/fletcher32.h"
#include "trace/untrusted_file.h"

namespace headscope::data {
namespace {

uint32_t LittleEndian(const char* at) {
  unsigned char bytes[4];
  std::memcpy(bytes, at, 4);
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

}  // namespace

// A chunk holds items of one row, each of them whole.
void UntrustedFile::RequireChunkShape(const CheckedDataset& dataset) const {
  const StoredDataset& stored = *dataset.stored;
  uint64_t chunks = static_cast<uint64_t>(dataset.parts_per_row);
  bool overflow = false;
  bool fits = stored.filters == kPlainFilters || stored.IsCompressed();
  for (size_t i = 0; i < stored.chunk.size(); ++i) {
    const auto extent = static_cast<uint64_t>(dataset.extents[i]);
    fits = fits && (i == dataset.axis || stored.chunk[i] == (i < dataset.axis ? 1 : extent));
    if (i < dataset.axis) overflow = __builtin_mul_overflow(chunks, extent, &chunks) || overflow;
  }
  if (!fits) Refuse(dataset.name, std::string("has chunks that ") + kind_.noun + " never has");
  // Of that shape a chunk has at most 16 MiB, as was checked.
  const auto bytes = static_cast<uint64_t>(dataset.part_items * dataset.item_bytes) + kChecksumBytes;
  const size_t sizes = stored.IsCompressed() ? stored.chunk_addresses.size() : 0;
  if (overflow || stored.chunk_addresses.size() != chunks || stored.chunk_bytes != bytes ||
      stored.chunk_sizes.size() != sizes) {
    Refuse(dataset.name, "has a list of chunks that does not fit its extents");
  }
}

void UntrustedFile::Claim(const CheckedDataset& dataset, const std::vector<Place>& places, uint64_t data_bytes) {
  const auto refuse = [&](const std::string& problem) { Refuse(dataset.name, problem); };
  const auto middle = static_cast<std::ptrdiff_t>(claimed_.size());
  const auto size = static_cast<uint64_t>(size_);
  for (const auto& [address, bytes] : places) {
    if (address == kNoAddress) refuse("lacks data that the other fields declare");
    if (bytes > size || address > size - bytes) {
      if (size_ < declared_size_) throw BadInputError(Unreadable(""));
      refuse("has data beyond the end of the file");
    }
    claimed_.emplace_back(address, address + bytes);
  }
  claimed_bytes_ += data_bytes;  // at most 16 MiB for each of the places, which are in memory
  if (dataset.stored->IsCompressed()) unpacked_bytes_ += data_bytes;
  const auto beyond = [&](uint64_t data) { return data / kMostPerStoredByte > static_cast<uint64_t>(stored_size_); };
  if (beyond(claimed_bytes_ - unpacked_bytes_) || (beyond(claimed_bytes_) && unpacked_bytes_ > kMostUnpackedBytes)) {
    refuse("brings the data to " + std::to_string(claimed_bytes_) + " bytes in a file of " + SizeInWords());
  }
  std::sort(claimed_.begin() + middle, claimed_.end());
  std::inplace_merge(claimed_.begin(), claimed_.begin() + middle, claimed_.end());
  for (size_t i = 1; i < claimed_.size(); ++i) {
    if (claimed_[i].first < claimed_[i - 1].second) refuse("shares bytes of the file with other data");
  }
}

void UntrustedFile::RequireStored(CheckedDataset& dataset, int64_t used, StoredLayout layout) {
  const StoredDataset& stored = *dataset.stored;
  const auto refuse = [&](const std::string& problem) { Refuse(dataset.name, problem); };
  if (used == 0) return;
  const bool empty =
      dataset.item_bytes == 0 || std::find(dataset.extents.begin(), dataset.extents.end(), 0) != dataset.extents.end();
  if (empty || used > dataset.num_items) refuse("lacks data that the other fields declare");
  if (stored.layout == StoredLayout::kTooManyParts) {
    refuse("declares more chunks than a file of " + SizeInWords() + " holds");
  }
  if (stored.layout != layout || stored.chunk.empty() != (layout == StoredLayout::kContiguous)) {
    refuse(std::string("is stored in a way that ") + kind_.noun + " never is");
  }
  if (layout == StoredLayout::kContiguous) {
    uint64_t bytes = stored.type.size;  // of all extents: at most the file's size, as was checked
    for (const int64_t extent : dataset.extents) bytes *= static_cast<uint64_t>(extent);
    if (stored.address == kNoAddress) refuse("was never written");
    if (!stored.filters.empty() || stored.stored_bytes != bytes) {
      refuse("takes " + std::to_string(stored.stored_bytes) + " bytes instead of " + std::to_string(bytes));
    }
    Claim(dataset, {{stored.address, bytes}}, bytes);
    return;
  }
  RequireChunkShape(dataset);
  const auto parts = static_cast<size_t>(dataset.parts_per_row);
  const auto used_parts = static_cast<size_t>((used - 1) / dataset.part_items + 1);
  std::vector<Place> places;
  for (size_t row = 0; row < stored.chunk_addresses.size(); row += parts) {
    for (size_t chunk = row; chunk < row + used_parts; ++chunk) {
      const uint64_t bytes = stored.IsCompressed() ? stored.chunk_sizes[chunk] : stored.chunk_bytes;
      if (stored.chunk_addresses[chunk] != kNoAddress &&
          (bytes <= kChecksumBytes || bytes > MostCompressedBytes(stored.chunk_bytes) + kChecksumBytes ||
           bytes < stored.chunk_bytes / kMostPerPackedByte))
        refuse("has a chunk of " + std::to_string(bytes) + " bytes");
      places.push_back({stored.chunk_addresses[chunk], bytes});
    }
  }
  Claim(dataset, places, places.size() * stored.chunk_bytes);
  dataset.verified = std::make_unique<std::atomic<bool>[]>(stored.chunk_addresses.size());
}

void UntrustedFile::Read(const CheckedDataset& dataset, int64_t row, int64_t begin, int64_t end, int64_t checked_end,
                         void* out) const {
  auto* at = static_cast<char*>(out);
  while (begin < end) {
    const int64_t part = begin / dataset.part_items, within = begin % dataset.part_items;
    const int64_t count = std::min(dataset.part_items - within, end - begin);
    const bool verify = dataset.verified != nullptr && part * dataset.part_items < checked_end;
    const int64_t bytes = count * dataset.item_bytes;
    ReadPart(dataset, row * dataset.parts_per_row + part, within * dataset.item_bytes, bytes, verify, at);
    at += bytes;
    begin += count;
  }
}

// The first read of a chunk reads all of it for its checksum, later ones only what they want; of a compressed chunk
// each reads all.
void UntrustedFile::ReadPart(const CheckedDataset& dataset, int64_t part, int64_t first_byte, int64_t bytes,
                             bool verify, char* out) const {
  const StoredDataset& stored = *dataset.stored;
  const bool chunked = dataset.verified != nullptr, compressed = chunked && stored.IsCompressed();
  const auto number = static_cast<size_t>(part);
  const uint64_t address = chunked ? stored.chunk_addresses[number] : stored.address;
  verify = verify && !dataset.verified[number].load(std::memory_order_relaxed);
  if (!verify && !compressed) {
    ReadBytes(dataset, address + static_cast<uint64_t>(first_byte), out, bytes);
    return;
  }
  const auto data_bytes = static_cast<size_t>(dataset.part_items * dataset.item_bytes);
  const size_t stored_bytes =
      compressed ? static_cast<size_t>(stored.chunk_sizes[number] - kChecksumBytes) : data_bytes;
  const auto whole = std::make_unique_for_overwrite<char[]>(stored_bytes + kChecksumBytes);
  ReadBytes(dataset, address, whole.get(), static_cast<int64_t>(stored_bytes + kChecksumBytes));
  if (verify) {
    if (Fletcher32(whole.get(), stored_bytes) != LittleEndian(whole.get() + stored_bytes)) {
      Refuse(dataset.name, "has a chunk whose checksum is wrong");
    }
    dataset.verified[number].store(true, std::memory_order_relaxed);
  }
  if (!compressed) {
    std::memcpy(out, whole.get() + first_byte, static_cast<size_t>(bytes));
    return;
  }
  const auto data = std::make_unique_for_overwrite<char[]>(data_bytes);
  if (!ReadCompressedChunk({whole.get(), stored_bytes}, static_cast<int64_t>(stored.type.size),
                           {data.get(), data_bytes})) {
    Refuse(dataset.name, "has a chunk that cannot be decompressed");
  }
  std::memcpy(out, data.get() + first_byte, static_cast<size_t>(bytes));
}

void UntrustedFile::ReadBytes(const CheckedDataset& dataset, uint64_t address, char* out, int64_t bytes) const {
  auto at = static_cast<off_t>(address);
  while (bytes > 0) {
    const ssize_t got = pread(descriptor_, out, static_cast<size_t>(bytes), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Refuse(dataset.name, std::string("cannot be read (") + std::strerror(errno) + ")", "check the disk");
    }
    if (got == 0) Refuse(dataset.name, "was cut short while it was read", "copy the whole file again");
    out += got;
    at += got;
    bytes -= got;
  }
}

std::string UntrustedFile::TextDataset(const StoredGroup& group, const std::string& name, int64_t max_bytes) {
  if (const StoredDataset& found = Find(group, name); found.type.kind != StoredKind::kText) {
    Refuse("/" + group.path + "/" + name, "is not a fixed-length string");
  }
  CheckedDataset dataset = Dataset(group, name, StoredKind::kText, 0, 0);
  if (dataset.item_bytes > max_bytes || dataset.item_bytes > size_) {
    Refuse(dataset.name, "has " + std::to_string(dataset.item_bytes) + " bytes in a file of " + SizeInWords() +
                             ", at most " + std::to_string(max_bytes) + " are allowed");
  }
  RequireStored(dataset, 1, StoredLayout::kContiguous);
  std::string text(static_cast<size_t>(dataset.item_bytes), '\0');
  Read(dataset, 0, 0, 1, 0, text.data());
  text.resize(std::strlen(text.c_str()));
  return text;
}

}  // namespace headscope::data
