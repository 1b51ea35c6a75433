// SPDX-License-Identifier: Apache-2.0
#include "choices/file_kinds.h"

#include <array>
#include <fstream>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "choices/saved_index.h"
#include "data/index_file.h"
#include "data/mask_file.h"
#include "kernels/file_methods.h"

namespace headscope::app {
namespace {

bool IsHdf5(const std::string& path) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, 8> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return file && std::string_view(bytes.data(), bytes.size()) == kSignature;
}

kernels::Status MakeMask(const std::string& own_name, const std::string& path, MethodsOfFile* made) {
  std::variant<data::IndexFile, data::BlockMaskFile> read =
      IsHdf5(path) ? data::ReadIndexFile(path) : data::ReadMaskJson(path);
  if (const auto* const index = std::get_if<data::IndexFile>(&read)) {
    std::vector<kernels::HeadOfModel> heads;
    for (size_t i = 0; i + 1 < index->heads.size(); i += 2) heads.push_back({index->heads[i], index->heads[i + 1]});
    return kernels::MakeMaskMethod(own_name, IndexOf(path, *index), heads, &made->prefill);
  }
  auto& file = std::get<data::BlockMaskFile>(read);
  kernels::BlockMask mask{.block_q = file.block_q,
                          .block_k = file.block_k,
                          .num_heads = file.num_heads,
                          .num_rows = file.num_rows,
                          .begin = std::move(file.begin),
                          .blocks = std::move(file.blocks)};
  return kernels::MakeMaskMethod(own_name, std::move(mask), &made->prefill);
}

kernels::Status MakeDuo(const std::string& own_name, const std::string& path, MethodsOfFile* made) {
  data::HeadNumbers numbers = data::ReadHeadNumbers(path);
  kernels::StreamingTokens streaming;
  made->model = {numbers.num_layers, numbers.num_heads};
  if (const auto sizes = data::ReadStreamingSizes(path)) streaming = {sizes->sink, sizes->recent};
  return kernels::MakeDuoAttention(own_name, numbers.num_layers, numbers.num_heads, std::move(numbers.values),
                                   streaming, &made->prefill, &made->decode);
}

}  // namespace

std::span<const FileKind> FileKinds() {
  static const std::array<FileKind, 2> kKinds = {{
      {.name = "mask-file",
       .help = "the mask in a file: an index as HDF5 or JSON, or a FlexAttention block mask in JSON",
       .make = &MakeMask},
      {.name = "duo-attention",
       .help = "sink and recent tokens in the heads that DuoAttention's file lets stream, all tokens in the others",
       .decodes = true,
       .make = &MakeDuo},
  }};
  return kKinds;
}

}  // namespace headscope::app
