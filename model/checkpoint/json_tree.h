// SPDX-License-Identifier: Apache-2.0
// A JSON text as a flat tree: what headscope reads of model folders, whose files are untrusted and large.
//
// Every value is one node of 16 bytes in the order of the text, and all strings lie in one block; so a text of n bytes,
// whatever it holds, takes at most 9 n bytes here (n for the strings, 8 n for nodes, since a value needs two bytes of
// text) and 4 n while the keys of one object are compared. Reading takes time in proportion to the text, within the
// logarithm of sorting each object's keys. A container is walked from front to back; Find looks at every member, which
// is meant for objects with a handful of them.
//
// Read strictly: one value, valid UTF-8, bounded depth, no key twice in an object. The usual parsers keep the last of
// two equal keys, so two readers of one file can see two different models; such a file is refused.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace headscope::model {

class JsonTree;

// One value of a tree; valid as long as the tree.
class JsonValue {
 public:
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNegative, kUnsigned, kReal, kString, kArray, kObject };

  JsonValue(const JsonTree* tree, uint32_t node) : tree_(tree), node_(node) {}
  Kind kind() const;
  bool IsNull() const { return kind() == Kind::kNull; }
  bool IsString() const { return kind() == Kind::kString; }
  bool IsArray() const { return kind() == Kind::kArray; }
  bool IsObject() const { return kind() == Kind::kObject; }
  bool IsBoolean() const { return kind() == Kind::kTrue || kind() == Kind::kFalse; }
  bool IsNumber() const { return kind() == Kind::kNegative || kind() == Kind::kUnsigned || kind() == Kind::kReal; }
  // The number, if it is written as a whole one and lies in the range.
  std::optional<int64_t> IntegerIn(int64_t least, int64_t most) const;
  double Number() const;          // of a number
  std::string_view Text() const;  // of a string
  uint64_t size() const;          // elements or members
  const char* KindName() const;   // as in "is an array"
  std::string Shortened() const;  // for messages: a scalar's value, at most 60 bytes, or what it is

  // `visit(JsonValue)` for every element of an array.
  template <typename Visit>
  void ForEachElement(const Visit& visit) const {
    uint32_t at = node_ + 1;
    for (uint64_t left = size(); left > 0; --left, at = After(at)) visit(JsonValue(tree_, at));
  }
  // `visit(std::string_view key, JsonValue)` for every member of an object.
  template <typename Visit>
  void ForEachMember(const Visit& visit) const {
    uint32_t at = node_ + 1;
    for (uint64_t left = size(); left > 0; --left, at = After(at + 1))
      visit(JsonValue(tree_, at).Text(), JsonValue(tree_, at + 1));
  }
  std::optional<JsonValue> Find(std::string_view key) const;  // a member, also one that is null

 private:
  uint32_t After(uint32_t node) const;
  const JsonTree* tree_;
  uint32_t node_;
};

struct JsonLimits {
  // Values and keys that the text may hold; a larger number is refused.
  uint64_t max_nodes = UINT32_MAX;
};

class JsonTree {
 public:
  // `file` only names the source in messages. Throws BadInputError.
  JsonTree(std::string_view text, const std::string& file, const JsonLimits& limits = {});
  JsonTree(const JsonTree&) = delete;
  JsonTree& operator=(const JsonTree&) = delete;
  JsonValue Root() const { return {this, 0}; }

 private:
  friend class JsonValue;
  class Builder;
  struct Node {
    // A number's bits, a string's place in text_, a container's elements or members.
    uint64_t payload = 0;
    uint32_t extent = 0;  // a string's length; a container's end, the node after its last one
    JsonValue::Kind kind = JsonValue::Kind::kNull;
  };
  std::deque<Node> nodes_;  // an object's member is its key and then its value
  std::string text_;
};

}  // namespace headscope::model
