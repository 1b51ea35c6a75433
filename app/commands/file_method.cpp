// SPDX-License-Identifier: Apache-2.0
#include "commands/file_method.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <utility>

#include "base/errors.h"
#include "bench/workload.h"
#include "data/index_file.h"
#include "data/mask_file.h"
#include "kernels/file_methods.h"

namespace headscope::app {
namespace {

constexpr std::string_view kMask = "mask-file", kDuo = "duo-attention";

bool IsHdf5(const std::string& path) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, 8> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return file && std::string_view(bytes.data(), bytes.size()) == kSignature;
}

kernels::Status Make(std::string_view kind, const std::string& name, const std::string& path,
                     std::unique_ptr<kernels::PrefillMethod>* made) {
  if (kind == kDuo) {
    data::HeadNumbers numbers = data::ReadHeadNumbers(path);
    return kernels::MakeDuoAttention(name, numbers.num_layers, numbers.num_heads, std::move(numbers.values), made);
  }
  if (IsHdf5(path)) return kernels::MakeMaskMethod(name, bench::ToIndex(path, data::ReadIndexFile(path)), made);
  data::BlockMaskFile file = data::ReadBlockMask(path);
  kernels::BlockMask mask{.block_q = file.block_q,
                          .block_k = file.block_k,
                          .num_heads = file.num_heads,
                          .num_rows = file.num_rows,
                          .begin = std::move(file.begin),
                          .blocks = std::move(file.blocks)};
  return kernels::MakeMaskMethod(name, std::move(mask), made);
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
  return name == kMask || name == kDuo;
}

std::string FileMethodNames() {
  return std::string(kMask) + ":path=FILE, " + std::string(kDuo) + ":path=FILE";
}

const kernels::PrefillMethod& MethodOfFile(const std::string& name, std::string* parameters,
                                           const std::string& option) {
  const std::string path = TakePath(name, parameters, option);
  const std::string own = name + "[" + path + "]";
  if (const kernels::PrefillMethod* known = kernels::FindPrefillMethod(own); known != nullptr) return *known;
  std::unique_ptr<kernels::PrefillMethod> made;
  if (const kernels::Status status = Make(name, own, path, &made); !status.ok())
    throw BadInputError({.file = path, .problem = status.message(), .remedy = "write the file again"});
  return kernels::AddPrefillMethod(std::move(made));
}

}  // namespace headscope::app
