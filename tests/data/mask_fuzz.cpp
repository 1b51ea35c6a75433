// SPDX-License-Identifier: Apache-2.0
// libFuzzer program of the readers of masks, of indices as JSON and of numbers per head: whatever the bytes, they read
// them or throw BadInputError, and what they read holds together.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "base/errors.h"
#include "data/mask_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("mask", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) {
    std::perror("memfd");
    std::abort();
  }
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  try {
    const auto read = headscope::data::ReadMaskJson(path);
    if (const auto* const mask = std::get_if<headscope::data::BlockMaskFile>(&read)) {
      const auto lists = static_cast<size_t>(int64_t{mask->num_heads} * mask->num_rows);
      if (mask->begin.size() != lists + 1 || mask->begin.back() != static_cast<int64_t>(mask->blocks.size()))
        std::abort();
    } else {
      const auto& index = std::get<headscope::data::IndexFile>(read);
      const size_t lists = index.run_begin.size();
      if (index.run_count.size() != lists || index.column_begin.size() != lists || index.column_count.size() != lists ||
          index.runs.size() % 2 != 0 || index.heads.empty() ||
          static_cast<int64_t>(index.heads.size()) != 2 * int64_t{index.num_qo_heads})
        std::abort();
    }
  } catch (const headscope::BadInputError&) {
  }
  try {
    const headscope::data::HeadNumbers numbers = headscope::data::ReadHeadNumbers(path);
    if (numbers.values.size() != static_cast<size_t>(int64_t{numbers.num_layers} * numbers.num_heads)) std::abort();
  } catch (const headscope::BadInputError&) {
  }
  close(descriptor);
  return 0;
}
