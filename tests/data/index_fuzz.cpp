// SPDX-License-Identifier: Apache-2.0
// libFuzzer program of the index reader: whatever the bytes, it reads them or throws BadInputError. Its seed is written
// into the corpus folder of the command line when that holds none yet, so that mutations start from a valid file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/errors.h"
#include "data/index_file.h"
#include "data/trace_schema.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path corpus((*argv)[i]);
    if (!std::filesystem::is_directory(corpus) || std::filesystem::exists(corpus / "seed")) continue;
    headscope::data::IndexFile index;
    index.method = "blocks-90";
    index.recipe = "headscope-seeded-1";
    index.dtype = headscope::ElementType::kBFloat16;
    index.num_qo_heads = index.num_kv_heads = 1;
    index.head_dim = 64;
    index.seq_q = index.seq_k = 256;
    index.tile_rows = 128;
    index.mask_kind = 1;
    index.run_begin = index.column_begin = {0, 1};
    index.run_count = index.column_count = {1, 1};
    index.runs = {0, 128, 64, 128};
    index.columns = {3, 5};
    headscope::data::WriteIndexFile((corpus / "seed").string(), index);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("index", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) {
    std::perror("memfd");
    std::abort();
  }
  try {
    headscope::data::ReadIndexFile("/proc/self/fd/" + std::to_string(descriptor));
  } catch (const headscope::BadInputError&) {
  }
  close(descriptor);
  return 0;
}
