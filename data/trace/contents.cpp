// SPDX-License-Identifier: Apache-2.0
#include "trace/contents.h"

#include <cstring>

namespace headscope::data {
namespace {

constexpr char kMagic[4] = {'H', 'S', 'T', 'C'};

class Writer {
 public:
  void Byte(uint8_t value) { bytes_ += static_cast<char>(value); }
  void Word(uint32_t value) { Raw(&value, sizeof value); }
  void Long(uint64_t value) { Raw(&value, sizeof value); }
  void Text(const std::string& text) {
    Word(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  void Longs(const std::vector<uint64_t>& values) {
    Word(static_cast<uint32_t>(values.size()));
    Raw(values.data(), values.size() * sizeof(uint64_t));
  }
  void Raw(const void* data, size_t size) {
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Every read checks what is left; after a failure everything reads as zero and ok() stays false.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }
  uint8_t Byte() { return Number<uint8_t>(); }
  uint32_t Word() { return Number<uint32_t>(); }
  uint64_t Long() { return Number<uint64_t>(); }
  bool Flag() {
    const uint8_t value = Byte();
    ok_ = ok_ && value <= 1;
    return value == 1;
  }
  template <typename Enum>
  Enum Choice(Enum last) {
    const uint8_t value = Byte();
    ok_ = ok_ && value <= static_cast<uint8_t>(last);
    return ok_ ? static_cast<Enum>(value) : Enum{};
  }
  // A count of things that take at least `least` bytes each.
  size_t Count(size_t least, size_t most) {
    const size_t count = Word();
    ok_ = ok_ && count <= most && count <= rest_.size() / least;
    return ok_ ? count : 0;
  }
  std::string Text(size_t most) {
    const size_t size = Count(1, most);
    std::string text(rest_.data(), size);
    rest_ = rest_.subspan(size);
    return text;
  }
  std::vector<uint64_t> Longs(size_t most) {
    std::vector<uint64_t> values(Count(sizeof(uint64_t), most));
    Copy(values.data(), values.size() * sizeof(uint64_t));
    return values;
  }

 private:
  template <typename Value>
  Value Number() {
    Value value{};
    Copy(&value, sizeof value);
    return value;
  }
  void Copy(void* out, size_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_ || size == 0) return;
    std::memcpy(out, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }

  std::span<const char> rest_;
  bool ok_ = true;
};

void Encode(const StoredType& type, Writer& out) {
  out.Byte(static_cast<uint8_t>(type.kind));
  out.Byte(static_cast<uint8_t>(type.type_class));
  out.Long(type.size);
}

StoredType DecodeType(Reader& in) {
  StoredType type;
  type.kind = in.Choice(StoredKind::kLast);
  type.type_class = in.Choice(StoredClass::kLast);
  type.size = in.Long();
  return type;
}

void Encode(const StoredAttribute& attribute, Writer& out) {
  out.Text(attribute.name);
  Encode(attribute.type, out);
  out.Byte(attribute.readable);
  out.Longs(attribute.extents);
  out.Text(attribute.bytes);
}

StoredAttribute DecodeAttribute(Reader& in) {
  StoredAttribute attribute;
  attribute.name = in.Text(kMaxNameBytes);
  attribute.type = DecodeType(in);
  attribute.readable = in.Flag();
  attribute.extents = in.Longs(kMaxRank);
  attribute.bytes = in.Text(kMaxAttributeBytes);
  return attribute;
}

void Encode(const StoredDataset& dataset, Writer& out) {
  out.Text(dataset.name);
  out.Byte(dataset.readable);
  Encode(dataset.type, out);
  out.Longs(dataset.extents);
  out.Word(static_cast<uint32_t>(dataset.filters.size()));
  for (const int32_t filter : dataset.filters) out.Word(static_cast<uint32_t>(filter));
  out.Byte(static_cast<uint8_t>(dataset.layout));
  out.Long(dataset.address);
  out.Long(dataset.stored_bytes);
  out.Longs(dataset.chunk);
  out.Long(dataset.chunk_bytes);
  out.Longs(dataset.chunk_addresses);
  if (dataset.IsCompressed()) out.Longs(dataset.chunk_sizes);
}

StoredDataset DecodeDataset(Reader& in) {
  StoredDataset dataset;
  dataset.name = in.Text(kMaxNameBytes);
  dataset.readable = in.Flag();
  dataset.type = DecodeType(in);
  dataset.extents = in.Longs(kMaxRank);
  dataset.filters.resize(in.Count(sizeof(uint32_t), kMaxRank));
  for (int32_t& filter : dataset.filters) filter = static_cast<int32_t>(in.Word());
  dataset.layout = in.Choice(StoredLayout::kTooManyParts);
  dataset.address = in.Long();
  dataset.stored_bytes = in.Long();
  dataset.chunk = in.Longs(kMaxRank);
  dataset.chunk_bytes = in.Long();
  dataset.chunk_addresses = in.Longs(SIZE_MAX);
  if (dataset.IsCompressed()) dataset.chunk_sizes = in.Longs(SIZE_MAX);
  return dataset;
}

// Bytes of the smallest attribute, dataset and group: bounds of their numbers.
constexpr size_t kLeastAttribute = 23, kLeastDataset = 56, kLeastGroup = 18;

StoredGroup DecodeGroup(Reader& in) {
  StoredGroup group;
  group.path = in.Text(kMaxGroupDepth * (kMaxNameBytes + 1));
  group.readable = in.Flag();
  group.crowded = in.Flag();
  group.foreign_link = in.Text(kMaxNameBytes);
  for (size_t left = in.Count(kLeastAttribute, kMaxMembers); left > 0 && in.ok(); --left) {
    group.attributes.push_back(DecodeAttribute(in));
  }
  for (size_t left = in.Count(kLeastDataset, kMaxMembers); left > 0 && in.ok(); --left) {
    group.datasets.push_back(DecodeDataset(in));
  }
  return group;
}

}  // namespace

const StoredGroup* Contents::Group(const std::string& path) const {
  for (const StoredGroup& group : groups) {
    if (group.path == path) return &group;
  }
  return nullptr;
}

std::string EncodeContents(const Contents& contents) {
  Writer out;
  out.Text(contents.failure);
  out.Byte(contents.without_filter);
  out.Word(static_cast<uint32_t>(contents.groups.size()));
  for (const StoredGroup& group : contents.groups) {
    out.Text(group.path);
    out.Byte(group.readable);
    out.Byte(group.crowded);
    out.Text(group.foreign_link);
    out.Word(static_cast<uint32_t>(group.attributes.size()));
    for (const StoredAttribute& attribute : group.attributes) Encode(attribute, out);
    out.Word(static_cast<uint32_t>(group.datasets.size()));
    for (const StoredDataset& dataset : group.datasets) Encode(dataset, out);
  }
  const std::string body = out.Take();
  Writer whole;
  whole.Raw(kMagic, sizeof kMagic);
  whole.Word(kContentsVersion);
  whole.Long(kContentsHeaderBytes + body.size());
  return whole.Take() + body;
}

uint64_t ContentsLength(std::span<const char> header) {
  if (header.size() < kContentsHeaderBytes || std::memcmp(header.data(), kMagic, sizeof kMagic) != 0) return 0;
  Reader in(header.subspan(sizeof kMagic));
  const uint32_t version = in.Word();
  const uint64_t length = in.Long();
  return version == kContentsVersion && length >= kContentsHeaderBytes ? length : 0;
}

bool DecodeContents(std::span<const char> bytes, Contents* contents) {
  if (bytes.size() < kContentsHeaderBytes || ContentsLength(bytes) != bytes.size()) return false;
  Reader in(bytes.subspan(kContentsHeaderBytes));
  Contents read;
  read.failure = in.Text(kMaxNameBytes);
  read.without_filter = in.Flag();
  for (size_t left = in.Count(kLeastGroup, SIZE_MAX); left > 0 && in.ok(); --left) {
    read.groups.push_back(DecodeGroup(in));
  }
  if (!in.done()) return false;
  *contents = std::move(read);
  return true;
}

}  // namespace headscope::data
