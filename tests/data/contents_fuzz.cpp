// libFuzzer entry for what headscope does with a table of contents: whatever the process that parses HDF5 answers,
// headscope reads by it or throws BadTraceError. A crafted file that takes that process over gets no further.
#include "contents_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "data/trace_schema.h"
#include "synthetic_trace.h"
#include "trace/contents_process.h"
#include "trace/stored_trace.h"

namespace headscope::data::testing {
namespace {

OpenTrace MakeSeed() {
  const std::string bytes = TinyTrace();
  const int descriptor = memfd_create("trace", MFD_CLOEXEC);
  std::string problem;
  if (descriptor < 0 || write(descriptor, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::perror("memfd");
    std::abort();
  }
  return {"/proc/self/fd/" + std::to_string(descriptor),
          ReadContents(descriptor, static_cast<int64_t>(bytes.size()), &problem)};
}

void ReadHeads(const StoredTrace& trace, const CheckedDataset& dataset, size_t heads, int64_t count) {
  std::vector<char> values(static_cast<size_t>(count * dataset.item_bytes) + 1);
  for (int32_t layer = 0; layer < static_cast<int32_t>(trace.layout().layers.size()); ++layer) {
    for (int32_t head = 0; head < static_cast<int32_t>(heads); ++head) {
      trace.Read(dataset, layer, head, 0, count, count, values.data());
    }
  }
}

}  // namespace

const OpenTrace& SeedTrace() {
  static const OpenTrace seed = MakeSeed();
  return seed;
}

bool ReadByContents(Contents contents) {
  try {
    const StoredTrace trace(SeedTrace().path, std::move(contents));
    ReadHeads(trace, trace.q(), trace.layout().qo_heads.size(), trace.num_rows());
    ReadHeads(trace, trace.lse(), trace.layout().qo_heads.size(), trace.num_rows());
    ReadHeads(trace, trace.k(), trace.layout().kv_heads.size(), trace.num_tokens());
    ReadHeads(trace, trace.v(), trace.layout().kv_heads.size(), trace.num_tokens());
    return true;
  } catch (const BadTraceError&) {
    return false;
  }
}

}  // namespace headscope::data::testing

// The table is the corpus' first seed when that holds none yet.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path corpus((*argv)[i]);
    if (!std::filesystem::is_directory(corpus) || std::filesystem::exists(corpus / "seed")) continue;
    std::ofstream(corpus / "seed", std::ios::binary)
        << headscope::data::EncodeContents(headscope::data::testing::SeedTrace().contents);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::data::Contents contents;
  if (headscope::data::DecodeContents({reinterpret_cast<const char*>(data), size}, &contents)) {
    headscope::data::testing::ReadByContents(std::move(contents));
  }
  return 0;
}
