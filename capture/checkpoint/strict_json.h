// JSON of a model folder, read strictly: one value, valid UTF-8, bounded depth, no key twice in an object.
//
// The usual parsers keep the last of two equal keys, so two readers of one file can see two different models; such a
// file is refused.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace headscope::capture {

// `file` only names the source in messages. Throws BadInputError.
nlohmann::json ParseStrictJson(std::string_view text, const std::string& file);

// What went wrong in a parse, without the library's own prefixes.
std::string JsonProblem(const nlohmann::json::exception& error);

// Typed access to one object's fields. Every refusal names the file and the dotted path of the field. A field that is
// absent or null counts as not given.
class JsonFields {
 public:
  // Throws BadInputError unless `object` is an object. `path`: of the object itself, empty for the root. Keeps a
  // reference.
  JsonFields(const nlohmann::json& object, std::string file, std::string path);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  bool IsNull(std::string_view key) const;                 // given, as null
  const nlohmann::json* Find(std::string_view key) const;  // nullptr: not given
  int64_t Integer(std::string_view key, int64_t least, int64_t most,
                  std::optional<int64_t> absent = std::nullopt) const;
  double Number(std::string_view key, std::optional<double> absent = std::nullopt) const;  // finite
  bool Boolean(std::string_view key, std::optional<bool> absent = std::nullopt) const;
  std::string Text(std::string_view key, std::optional<std::string> absent = std::nullopt) const;
  JsonFields Object(std::string_view key) const;
  // Refuses with this object's file and the path of `key` in it.
  [[noreturn]] void RefuseField(std::string_view key, std::string_view problem, std::string_view remedy) const;
  const std::string& file() const { return file_; }
  std::string PathOf(std::string_view key) const;

 private:
  const nlohmann::json& Required(std::string_view key) const;
  const nlohmann::json& object_;
  std::string file_;
  std::string path_;
};

}  // namespace headscope::capture
