// SPDX-License-Identifier: Apache-2.0
// libFuzzer entry for what headscope does with a table of contents: whatever the process that parses HDF5 answers,
// headscope reads by it or throws BadInputError. A crafted file that takes that process over gets no further.
#include "contents_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "data/trace_schema.h"
#include "synthetic_trace.h"
#include "trace/contents_process.h"
#include "trace/stored_trace.h"
#include "trace/trace_tensors.h"

namespace headscope::data::testing {
namespace {

OpenTrace MakeSeed(TraceStorage storage) {
  const std::string bytes = TinyTrace(storage);
  const int descriptor = memfd_create("trace", MFD_CLOEXEC);
  std::string problem;
  if (descriptor < 0 || write(descriptor, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::perror("memfd");
    std::abort();
  }
  return {"/proc/self/fd/" + std::to_string(descriptor),
          ReadContents(descriptor, static_cast<int64_t>(bytes.size()), &problem)};
}

void ReadHeads(const StoredTrace& trace, TraceTensor tensor, int64_t count) {
  const TensorSpec& spec = SpecOf(tensor);
  for (size_t slot = 0; slot < trace.layout().layers.size(); ++slot) {
    if (!Stores(trace.layout(), slot, tensor)) continue;
    const LayerFacts& facts = trace.layout().facts[slot];
    std::vector<char> values(static_cast<size_t>(count * NumComponents(spec, facts)) * 4 + 1);
    for (int32_t head = 0; head < NumHeads(spec, facts); ++head) {
      trace.Read(tensor, static_cast<int32_t>(slot), head, 0, count, values.data());
    }
  }
}

}  // namespace

const OpenTrace& SeedTrace(TraceStorage storage) {
  static const OpenTrace plain = MakeSeed(TraceStorage::kPlain), compressed = MakeSeed(TraceStorage::kCompressed);
  return storage == TraceStorage::kPlain ? plain : compressed;
}

bool ReadByContents(Contents contents, TraceStorage storage) {
  try {
    const StoredTrace trace(SeedTrace(storage).path, std::move(contents));
    for (const TensorSpec& spec : kTensorSpecs) {
      ReadHeads(trace, spec.tensor, spec.of_rows ? trace.num_rows() : trace.num_tokens());
    }
    return true;
  } catch (const BadInputError&) {
    return false;
  }
}

}  // namespace headscope::data::testing

// The tables of both traces are the corpus' first seeds when that holds none yet.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path corpus((*argv)[i]);
    using headscope::data::TraceStorage;
    if (!std::filesystem::is_directory(corpus)) continue;
    for (const auto& [name, storage] :
         {std::pair("seed", TraceStorage::kPlain), std::pair("seed_compressed", TraceStorage::kCompressed)}) {
      if (std::filesystem::exists(corpus / name)) continue;
      std::ofstream(corpus / name, std::ios::binary)
          << headscope::data::EncodeContents(headscope::data::testing::SeedTrace(storage).contents);
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::data::Contents contents;
  if (headscope::data::DecodeContents({reinterpret_cast<const char*>(data), size}, &contents)) {
    headscope::data::testing::ReadByContents(contents);
    headscope::data::testing::ReadByContents(std::move(contents), headscope::data::TraceStorage::kCompressed);
  }
  return 0;
}
