// SPDX-License-Identifier: Apache-2.0
#include "choices/file_method.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/errors.h"
#include "choices/file_kinds.h"
#include "kernels/file_methods.h"

namespace headscope::app {
namespace {

const FileKind* FindKind(std::string_view name) {
  const std::span<const FileKind> kinds = FileKinds();
  const auto found = std::ranges::find(kinds, name, &FileKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

// Without path=FILE, which may stand anywhere among the others.
std::string TakePath(const std::string& name, std::string* parameters, const std::string& option) {
  constexpr std::string_view kKey = "path=";
  std::string path, others;
  for (size_t begin = 0; begin < parameters->size();) {
    const size_t end = std::min(parameters->find(',', begin), parameters->size());
    const std::string entry = parameters->substr(begin, end - begin);
    if (entry.starts_with(kKey) && path.empty()) {
      path = entry.substr(kKey.size());
    } else {
      others += (others.empty() ? "" : ",") + entry;
    }
    begin = end + 1;
  }
  if (path.empty()) throw UsageError(option + " " + name + ": no file is given; write " + name + ":path=FILE");
  *parameters = others;
  return path;
}

}  // namespace

bool IsFileMethod(std::string_view name) {
  return FindKind(name) != nullptr;
}

std::string FileMethodNames() {
  std::string names;
  for (const FileKind& kind : FileKinds())
    names.append(names.empty() ? "" : ", ").append(kind.name).append(":path=FILE");
  return names;
}

std::string MethodArgument(const std::string& name, const std::string& parameters) {
  const size_t bracket = name.find('[');
  const bool of_file = bracket != std::string::npos && name.ends_with(']') && IsFileMethod(name.substr(0, bracket));
  std::string text =
      of_file ? name.substr(0, bracket) + ":path=" + name.substr(bracket + 1, name.size() - bracket - 2) : name;
  if (!parameters.empty()) text += (of_file ? "," : ":") + parameters;
  return text;
}

const kernels::PrefillMethod& MethodOfFile(const std::string& name, std::string* parameters,
                                           const std::string& option) {
  const std::string path = TakePath(name, parameters, option);
  const std::string own = name + "[" + path + "]";
  if (const kernels::PrefillMethod* known = kernels::FindPrefillMethod(own); known != nullptr) return *known;
  std::unique_ptr<kernels::PrefillMethod> made;
  if (const kernels::Status status = FindKind(name)->make(own, path, &made); !status.ok())
    throw BadInputError({.file = path, .problem = status.message(), .remedy = "write the file again"});
  return kernels::AddPrefillMethod(std::move(made));
}

}  // namespace headscope::app
