// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/json_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/quoted_text.h"
#include "checkpoint/strict_json.h"
#include "model/input_file.h"

namespace headscope::model {
namespace {

constexpr size_t kMaxDepth = 64;

}  // namespace

class JsonTree::Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(JsonTree* tree, const std::string& file, const JsonLimits& limits)
      : tree_(*tree), file_(file), limits_(limits) {}

  bool null() override { return Add({.payload = 0, .extent = 0, .kind = Kind::kNull}); }
  bool boolean(bool value) override {
    return Add({.payload = 0, .extent = 0, .kind = value ? Kind::kTrue : Kind::kFalse});
  }
  bool number_integer(number_integer_t value) override {
    return Add({.payload = std::bit_cast<uint64_t>(value), .extent = 0, .kind = Kind::kNegative});
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Add({.payload = value, .extent = 0, .kind = Kind::kUnsigned});
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Add({.payload = std::bit_cast<uint64_t>(value), .extent = 0, .kind = Kind::kReal});
  }
  bool string(string_t& value) override { return AddText(value); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override { return Open(Kind::kObject); }
  bool end_object() override {
    Node& object = Close();
    object.payload /= 2;
    RefuseEqualKeys(JsonValue(&tree_, closed_));
    return true;
  }
  bool start_array(std::size_t) override { return Open(Kind::kArray); }
  bool end_array() override {
    Close();
    return true;
  }
  bool key(string_t& value) override { return AddText(value); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    Refuse(file_, "", "is not valid JSON: " + JsonProblem(error), kFetchAgain);
  }

 private:
  using Kind = JsonValue::Kind;

  bool Add(const Node& node) {
    if (tree_.nodes_.size() >= limits_.max_nodes) {
      Refuse(file_, "", "holds more than " + std::to_string(limits_.max_nodes) + " values, which no such file needs",
             "check that it is the right file");
    }
    if (!open_.empty()) ++tree_.nodes_[open_.back()].payload;
    tree_.nodes_.push_back(node);
    return true;
  }
  bool AddText(const std::string& text) {
    Add({.payload = tree_.text_.size(), .extent = static_cast<uint32_t>(text.size()), .kind = Kind::kString});
    tree_.text_ += text;
    return true;
  }
  bool Open(Kind kind) {
    if (open_.size() == kMaxDepth)
      Refuse(file_, "", "the JSON is nested more than " + std::to_string(kMaxDepth) + " deep", kFetchAgain);
    Add({.payload = 0, .extent = 0, .kind = kind});
    open_.push_back(static_cast<uint32_t>(tree_.nodes_.size() - 1));
    return true;
  }
  Node& Close() {
    closed_ = open_.back();
    open_.pop_back();
    Node& node = tree_.nodes_[closed_];
    node.extent = static_cast<uint32_t>(tree_.nodes_.size());
    return node;
  }
  void RefuseEqualKeys(const JsonValue& object) {
    std::vector<std::string_view> keys;
    keys.reserve(object.size());
    object.ForEachMember([&](std::string_view key, const JsonValue&) { keys.push_back(key); });
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return;
    Refuse(file_, Quoted(*twice), "the key appears twice in one object", kFetchAgain);
  }

  JsonTree& tree_;
  const std::string& file_;
  const JsonLimits& limits_;
  std::vector<uint32_t> open_;
  uint32_t closed_ = 0;
};

JsonTree::JsonTree(std::string_view text, const std::string& file, const JsonLimits& limits) {
  // A node's number and a string's length have 32 bits.
  if (text.size() >= UINT32_MAX) Refuse(file, "", "is longer than 4 GiB", "check that it is the right file");
  // No string is longer than it is written, so the block never moves and the views above stay valid.
  text_.reserve(text.size());
  Builder builder(this, file, limits);
  nlohmann::json::sax_parse(text, &builder);
}

JsonValue::Kind JsonValue::kind() const {
  return tree_->nodes_[node_].kind;
}

uint32_t JsonValue::After(uint32_t node) const {
  const JsonTree::Node& at = tree_->nodes_[node];
  return at.kind == Kind::kArray || at.kind == Kind::kObject ? at.extent : node + 1;
}

std::optional<int64_t> JsonValue::IntegerIn(int64_t least, int64_t most) const {
  const uint64_t bits = tree_->nodes_[node_].payload;
  if (kind() == Kind::kUnsigned && bits > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  if (kind() != Kind::kUnsigned && kind() != Kind::kNegative) return std::nullopt;
  const auto value = std::bit_cast<int64_t>(bits);
  return value >= least && value <= most ? std::optional(value) : std::nullopt;
}

double JsonValue::Number() const {
  const uint64_t bits = tree_->nodes_[node_].payload;
  if (kind() == Kind::kReal) return std::bit_cast<double>(bits);
  return kind() == Kind::kUnsigned ? static_cast<double>(bits) : static_cast<double>(std::bit_cast<int64_t>(bits));
}

std::string_view JsonValue::Text() const {
  const JsonTree::Node& node = tree_->nodes_[node_];
  return std::string_view(tree_->text_).substr(node.payload, node.extent);
}

uint64_t JsonValue::size() const {
  return kind() == Kind::kArray || kind() == Kind::kObject ? tree_->nodes_[node_].payload : 0;
}

std::optional<JsonValue> JsonValue::Find(std::string_view key) const {
  std::optional<JsonValue> found;
  if (!IsObject()) return found;
  ForEachMember([&](std::string_view name, const JsonValue& value) {
    if (name == key) found = value;
  });
  return found;
}

const char* JsonValue::KindName() const {
  constexpr std::array<const char*, 9> kNames = {"null",     "boolean",  "boolean",  "a number", "a number",
                                                 "a number", "a string", "an array", "an object"};
  return kNames[static_cast<size_t>(kind())];
}

std::string JsonValue::Shortened() const {
  switch (kind()) {
    case Kind::kFalse:
      return "false";
    case Kind::kTrue:
      return "true";
    case Kind::kUnsigned:
      return std::to_string(tree_->nodes_[node_].payload);
    case Kind::kNegative:
      return std::to_string(std::bit_cast<int64_t>(tree_->nodes_[node_].payload));
    case Kind::kReal: {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%g", Number());
      return text.data();
    }
    case Kind::kString:
      return Quoted(Text());
    default:
      return KindName();
  }
}

}  // namespace headscope::model
