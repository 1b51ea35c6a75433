// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "checkpoint/strict_json.h"

namespace headscope::model {
namespace {

constexpr size_t kMaxRank = 64;  // far above any real tensor; bounds the memory of one entry
// Far above any real file; keeps the table small when a hostile header packs millions of empty tensors into its 100 MB.
constexpr size_t kMaxTensors = 500'000;

struct DTypeBits {
  std::string_view name;
  int bits;
};
constexpr std::array<DTypeBits, 22> kDTypes = {
    {{"BOOL", 8},        {"U8", 8},   {"I8", 8},      {"U16", 16},    {"I16", 16},    {"U32", 32},
     {"I32", 32},        {"U64", 64}, {"I64", 64},    {"F16", 16},    {"BF16", 16},   {"F32", 32},
     {"F64", 64},        {"C64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}}};

int BitsOf(std::string_view dtype) {
  for (const DTypeBits& known : kDTypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

std::string TensorText(std::string_view name) {
  return "tensor " + Quoted(name);
}

// Follows the two levels that a header has and refuses everything else at once.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(const std::string& file) : file_(file) {}
  std::vector<TensorEntry> Take() {
    RefuseEqualNames();
    return std::move(entries_);
  }

  bool start_object(std::size_t) override {
    if (level_ == Level::kOutside) {
      level_ = Level::kRoot;
    } else if (level_ == Level::kRoot && root_key_ == "__metadata__") {
      level_ = Level::kMetadata;
    } else if (level_ == Level::kRoot) {
      level_ = Level::kTensor;
      entry_ = TensorEntry{.name = root_key_, .dtype = {}, .shape = {}, .begin = 0, .end = 0};
      fields_seen_ = 0;
    } else {
      Unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (level_ == Level::kTensor) {
      if (fields_seen_ != (kSeenDtype | kSeenShape | kSeenOffsets)) {
        Refuse(file_, TensorText(entry_.name), "lacks one of dtype, shape and data_offsets", kFetchAgain);
      }
      if (entries_.size() == kMaxTensors) Refuse(file_, "header", "lists more than 500000 tensors", kFetchAgain);
      entries_.push_back(std::move(entry_));
      level_ = Level::kRoot;
    } else if (level_ == Level::kMetadata) {
      level_ = Level::kRoot;
      RefuseEqualMetadataKeys();
    } else {
      level_ = Level::kDone;
    }
    return true;
  }

  bool key(string_t& name) override {
    if (level_ == Level::kRoot) {
      if (name == "__metadata__" && std::exchange(metadata_seen_, true))
        Refuse(file_, TensorText(name), "appears twice in the header", kFetchAgain);
      root_key_ = name;
    } else if (level_ == Level::kMetadata) {
      metadata_text_ += name;
      metadata_ends_.push_back(static_cast<uint32_t>(metadata_text_.size()));  // a header has at most 100 MB
    } else {
      const unsigned field = name == "dtype"          ? kSeenDtype
                             : name == "shape"        ? kSeenShape
                             : name == "data_offsets" ? kSeenOffsets
                                                      : 0U;
      if (field == 0) Refuse(file_, TensorText(entry_.name), "has the unknown field " + Quoted(name), kFetchAgain);
      if ((fields_seen_ & field) != 0)
        Refuse(file_, TensorText(entry_.name), "the field " + name + " appears twice", kFetchAgain);
      fields_seen_ |= field;
      current_field_ = field;
      num_offsets_ = 0;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ == Level::kTensor && !in_array_ && (current_field_ == kSeenShape || current_field_ == kSeenOffsets)) {
      in_array_ = true;
      return true;
    }
    Unexpected("an array");
  }

  bool end_array() override {
    in_array_ = false;
    if (current_field_ == kSeenOffsets && num_offsets_ != 2) {
      Refuse(file_, TensorText(entry_.name),
             "data_offsets has " + std::to_string(num_offsets_) + " numbers but needs 2", kFetchAgain);
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::kTensor || !in_array_) Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Refuse(file_, TensorText(entry_.name), "the number " + std::to_string(value) + " is larger than any file",
             kFetchAgain);
    }
    const auto number = static_cast<int64_t>(value);
    if (current_field_ == kSeenShape) {
      if (entry_.shape.size() == kMaxRank)
        Refuse(file_, TensorText(entry_.name), "shape has more than 64 dimensions", kFetchAgain);
      entry_.shape.push_back(number);
    } else if (num_offsets_++ == 0) {
      entry_.begin = number;
    } else {
      entry_.end = number;
    }
    return true;
  }

  bool string(string_t& value) override {
    if (level_ == Level::kMetadata) return true;  // free text, never used
    if (level_ != Level::kTensor || in_array_ || current_field_ != kSeenDtype) Unexpected("a string");
    if (BitsOf(value) == 0) {
      Refuse(file_, TensorText(entry_.name), "dtype " + Quoted(value) + " is not one of the format", kFetchAgain);
    }
    entry_.dtype = value;
    return true;
  }

  bool null() override { Unexpected("null"); }
  bool boolean(bool) override { Unexpected("true or false"); }
  bool number_integer(number_integer_t) override { Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { Unexpected("a number that is not a 64-bit whole one"); }
  bool binary(binary_t&) override { Unexpected("binary data"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    Refuse(file_, "header", "is not valid JSON: " + JsonProblem(error), kFetchAgain);
  }

 private:
  enum class Level { kOutside, kRoot, kMetadata, kTensor, kDone };
  static constexpr unsigned kSeenDtype = 1, kSeenShape = 2, kSeenOffsets = 4;

  [[noreturn]] void Unexpected(std::string_view what) {
    const std::string where = level_ == Level::kTensor     ? TensorText(entry_.name)
                              : level_ == Level::kMetadata ? "__metadata__"
                              : level_ == Level::kRoot     ? TensorText(root_key_)
                                                           : "header";
    Refuse(file_, where, "holds " + std::string(what) + " where the format has none", kFetchAgain);
  }

  // Names are compared by sorting: a hash table's time would be in the hands of whoever chose them.
  void RefuseEqualNames() const {
    std::vector<std::string_view> names;
    names.reserve(entries_.size());
    for (const TensorEntry& entry : entries_) names.emplace_back(entry.name);
    std::sort(names.begin(), names.end());
    if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
      Refuse(file_, TensorText(*twice), "appears twice in the header", kFetchAgain);
  }

  void RefuseEqualMetadataKeys() {
    std::vector<std::string_view> keys;
    keys.reserve(metadata_ends_.size());
    uint32_t begin = 0;
    for (const uint32_t end : metadata_ends_) {
      keys.push_back(std::string_view(metadata_text_).substr(begin, end - begin));
      begin = end;
    }
    std::sort(keys.begin(), keys.end());
    if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end()) {
      Refuse(file_, "__metadata__", "the key " + Quoted(*twice) + " appears twice", kFetchAgain);
    }
    metadata_text_ = {};
    metadata_ends_ = {};
  }

  const std::string& file_;
  Level level_ = Level::kOutside;
  std::string root_key_;
  bool metadata_seen_ = false;
  std::string metadata_text_;  // the keys of __metadata__, one after the other
  std::vector<uint32_t> metadata_ends_;
  TensorEntry entry_;
  std::vector<TensorEntry> entries_;
  unsigned fields_seen_ = 0;
  unsigned current_field_ = 0;
  int num_offsets_ = 0;
  bool in_array_ = false;
};

// Bytes that the shape and type need; refuses a product that overflows and a type that does not end on a whole byte.
int64_t SizeFromShape(const TensorEntry& entry, const std::string& file) {
  int64_t product = 1;
  bool overflow = false;
  for (const int64_t extent : entry.shape) overflow = overflow || __builtin_mul_overflow(product, extent, &product);
  if (overflow || __builtin_mul_overflow(product, BitsOf(entry.dtype), &product)) {
    Refuse(file, TensorText(entry.name), "shape has more elements than 64 bits count", kFetchAgain);
  }
  if (product % 8 != 0) Refuse(file, TensorText(entry.name), "shape and dtype do not fill whole bytes", kFetchAgain);
  return product / 8;
}

}  // namespace

std::optional<ElementType> StoredType(std::string_view dtype) {
  if (dtype == "F32") return ElementType::kFloat32;
  if (dtype == "BF16") return ElementType::kBFloat16;
  if (dtype == "F16") return ElementType::kFloat16;
  return {};
}

ElementType TypeByItself(std::string_view dtype) {
  return StoredType(dtype) == ElementType::kBFloat16 ? ElementType::kBFloat16 : ElementType::kFloat32;
}

std::vector<TensorEntry> ParseSafetensorsHeader(std::string_view json, int64_t data_size, const std::string& file) {
  HeaderHandler handler(file);
  nlohmann::json::sax_parse(json, &handler);
  std::vector<TensorEntry> entries = handler.Take();
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t covered = 0;
  for (const TensorEntry& entry : entries) {
    const std::string range = "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
    if (entry.end < entry.begin) Refuse(file, TensorText(entry.name), range + " end before they begin", kFetchAgain);
    if (entry.begin != covered) {
      Refuse(file, TensorText(entry.name),
             range +
                 (entry.begin < covered ? " overlap the tensor before, which ends at " : " leave a hole after byte ") +
                 std::to_string(covered),
             kFetchAgain);
    }
    const int64_t size = SizeFromShape(entry, file);
    if (entry.end - entry.begin != size) {
      Refuse(file, TensorText(entry.name),
             range + " differ from the " + std::to_string(size) + " bytes of its shape and dtype", kFetchAgain);
    }
    covered = entry.end;
  }
  if (covered != data_size) {
    Refuse(file, "data_offsets",
           "the tensors end at byte " + std::to_string(covered) + " of the data and the file has " +
               std::to_string(data_size),
           kFetchAgain);
  }
  return entries;
}

SafetensorsFile::SafetensorsFile(const std::string& path, std::string_view remedy) : file_(path, remedy) {
  constexpr int64_t kLengthBytes = 8;
  if (file_.size() < kLengthBytes) {
    Refuse(path, "", "has " + std::to_string(file_.size()) + " bytes and a safetensors file has at least 8",
           kFetchAgain);
  }
  std::array<unsigned char, kLengthBytes> raw{};
  file_.ReadAt(0, raw.data(), kLengthBytes);
  uint64_t header_size = 0;
  for (size_t i = raw.size(); i-- > 0;) header_size = header_size << 8 | raw[i];
  if (header_size > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    Refuse(path, "header length",
           std::to_string(header_size) + " is over the format's limit of " + std::to_string(kMaxSafetensorsHeader),
           kFetchAgain);
  }
  data_start_ = kLengthBytes + static_cast<int64_t>(header_size);
  if (data_start_ > file_.size()) {
    Refuse(path, "header length", std::to_string(header_size) + " runs past the end of the file", kFetchAgain);
  }
  std::string json(header_size, '\0');
  file_.ReadAt(kLengthBytes, json.data(), static_cast<int64_t>(header_size));
  entries_ = ParseSafetensorsHeader(json, file_.size() - data_start_, path);
}

void SafetensorsFile::Read(const TensorEntry& entry, void* into, const std::stop_token& stop) const {
  file_.ReadAt(data_start_ + entry.begin, into, entry.end - entry.begin, stop);
}

}  // namespace headscope::model
