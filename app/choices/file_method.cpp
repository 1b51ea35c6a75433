// SPDX-License-Identifier: Apache-2.0
#include "choices/file_method.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/errors.h"
#include "choices/file_kinds.h"
#include "kernels/file_methods.h"
#include "kernels/method_names.h"

namespace headscope::app {
namespace {

// By its name alone or as a decode method.
const FileKind* FindKind(std::string_view name) {
  const std::span<const FileKind> kinds = FileKinds();
  const auto found = std::ranges::find(kinds, kernels::WithoutPhase(name), &FileKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

constexpr std::string_view kPathKey = "path=";
constexpr char kQuote = '"';

// Where the path ends that begins at `begin`. Parameters are NAME=VALUE, so what follows a comma and is none is a part
// of the path.
size_t EndOfPlainPath(const std::string& text, size_t begin) {
  size_t comma = text.find(',', begin);
  while (comma != std::string::npos) {
    const size_t next = text.find(',', comma + 1);
    if (text.substr(comma + 1, next - comma - 1).find('=') != std::string::npos) return comma;
    comma = next;
  }
  return text.size();
}

// The path within quotes, of which the first is at `begin`; one in its name is doubled. `end`: behind the last.
// Nothing: the quotes have no end, or something other than a parameter follows.
std::optional<std::string> QuotedPath(const std::string& text, size_t begin, size_t* end) {
  std::string path;
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == kQuote) {
      if (i + 1 == text.size() || text[i + 1] == ',') {
        *end = i + 1;
        return path;
      }
      if (text[++i] != kQuote) return std::nullopt;
    }
    path += text[i];
  }
  return std::nullopt;
}

// Such that TakePath finds the same path, whatever it is called and whatever follows.
std::string PathArgument(const std::string& path) {
  if (!path.starts_with(kQuote) && EndOfPlainPath(path, 0) == path.size()) return path;
  std::string quoted(1, kQuote);
  for (const char letter : path) quoted.append(letter == kQuote ? 2 : 1, letter);
  return quoted + kQuote;
}

// Without path=FILE, which may stand anywhere among the others.
std::string TakePath(const std::string& name, std::string* parameters, const std::string& field) {
  std::string path, others;
  for (size_t begin = 0; begin < parameters->size();) {
    size_t end = std::min(parameters->find(',', begin), parameters->size());
    if (path.empty() && parameters->compare(begin, kPathKey.size(), kPathKey) == 0) {
      const size_t value = begin + kPathKey.size();
      if (value < parameters->size() && (*parameters)[value] == kQuote) {
        const std::optional<std::string> quoted = QuotedPath(*parameters, value, &end);
        if (!quoted) {
          throw UsageError({.field = field,
                            .value = name,
                            .problem = "the quotes of path= do not end with the path",
                            .remedy = "write path=\"FILE\", and a quote within the file's name twice"});
        }
        path = *quoted;
      } else {
        end = EndOfPlainPath(*parameters, value);
        path = parameters->substr(value, end - value);
      }
    } else {
      others += (others.empty() ? "" : ",") + parameters->substr(begin, end - begin);
    }
    begin = end + 1;
  }
  if (path.empty()) {
    throw UsageError(
        {.field = field, .value = name, .problem = "no file is given", .remedy = "write " + name + ":path=FILE"});
  }
  *parameters = others;
  return path;
}

// Of methods that live as long as the program, by their own names, and the files that they are of.
struct KnownModels {
  struct Entry {
    ModelOfFile model;
    std::string path;
  };
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> models;
};
KnownModels& Models() {
  static KnownModels models;
  return models;
}

std::optional<KnownModels::Entry> ModelOf(std::string_view method) {
  const std::lock_guard lock(Models().mutex);
  const auto found = Models().models.find(kernels::WithoutPhase(method));
  return found == Models().models.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

bool IsFileMethod(std::string_view name) {
  return FindKind(name) != nullptr;
}

std::string FileMethodNames() {
  std::string names;
  const auto add = [&names](const std::string& name) {
    names.append(names.empty() ? "" : ", ").append(name).append(":path=FILE");
  };
  for (const FileKind& kind : FileKinds()) {
    add(kind.name);
    if (kind.decodes) add(kernels::DecodeName(kind.name));
  }
  return names;
}

std::string MethodArgument(const std::string& name, const std::string& parameters) {
  const size_t bracket = name.find('[');
  const bool of_file = bracket != std::string::npos && name.ends_with(']') && IsFileMethod(name.substr(0, bracket));
  std::string text = name;
  if (of_file) {
    text = name.substr(0, bracket) + ":";
    text.append(kPathKey).append(PathArgument(name.substr(bracket + 1, name.size() - bracket - 2)));
  }
  if (!parameters.empty()) text += (of_file ? "," : ":") + parameters;
  return text;
}

std::string MethodOfFile(const std::string& name, std::string* parameters, const std::string& field) {
  const FileKind& kind = *FindKind(name);
  const bool decode = name != kind.name;
  if (decode && !kind.decodes) {
    throw UsageError({.field = field,
                      .value = name,
                      .problem = std::string(kind.name) + " makes prefill methods alone",
                      .remedy = "write " + std::string(kind.name) + ":path=FILE"});
  }
  const std::string path = TakePath(name, parameters, field);
  const std::string own = kind.name + "[" + path + "]";
  const std::string result = decode ? kernels::DecodeName(own) : own;
  if (kernels::FindPrefillMethod(own) != nullptr) return result;
  MethodsOfFile made;
  if (const kernels::Status status = kind.make(own, path, &made); !status.ok())
    throw BadInputError({.file = path, .problem = status.message(), .remedy = "write the file again"});
  if (made.model) {
    const std::lock_guard lock(Models().mutex);
    Models().models.insert({own, {*made.model, path}});
  }
  if (made.decode != nullptr) kernels::AddDecodeMethod(std::move(made.decode));
  kernels::AddPrefillMethod(std::move(made.prefill));
  return result;
}

bool IsOfModel(const std::string& method) {
  return ModelOf(method).has_value();
}

void CheckIsOfModel(const std::string& method, const std::string& whose, const KnownLayers& layers) {
  const std::optional<KnownModels::Entry> known = ModelOf(method);
  if (!known) return;
  const ModelOfFile& file = known->model;
  const bool as_wide =
      layers.more_possible ? file.num_kv_heads >= layers.most_kv_heads : file.num_kv_heads == layers.most_kv_heads;
  if (file.num_layers == layers.num_layers && as_wide) return;
  throw BadInputError({.file = known->path,
                       .problem = "it has " + std::to_string(file.num_layers) + " lines of " +
                                  std::to_string(file.num_kv_heads) + " numbers, and the model of " + whose + " has " +
                                  std::to_string(layers.num_layers) + " layers" +
                                  (layers.more_possible ? ", one of " : " of up to ") +
                                  std::to_string(layers.most_kv_heads) + " KV heads",
                       .remedy = "take the model's own file"});
}

}  // namespace headscope::app
