// libFuzzer entry for the trace reader: whatever the bytes, it reads them or throws BadTraceError. Also called by
// trace_fuzz_test.cpp.
#include "trace_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/trace_reader.h"

namespace {

using headscope::data::BadTraceError;
using headscope::data::TraceReader;

void ReadEverything(const TraceReader& reader) {
  const auto& layout = reader.layout();
  const int64_t most = std::max(reader.num_rows(), reader.num_tokens());
  std::vector<char> values(static_cast<size_t>(most * layout.model.head_dim) * 4 + 4);
  for (int32_t layer = 0; layer < static_cast<int32_t>(layout.layers.size()); ++layer) {
    for (int32_t head = 0; head < static_cast<int32_t>(layout.qo_heads.size()); ++head) {
      reader.ReadQ(layer, head, 0, reader.num_rows(), values.data());
      reader.ReadLse(layer, head, 0, reader.num_rows(), reinterpret_cast<float*>(values.data()));
    }
    for (int32_t head = 0; head < static_cast<int32_t>(layout.kv_heads.size()); ++head) {
      reader.ReadK(layer, head, 0, reader.num_tokens(), values.data());
      reader.ReadV(layer, head, 0, reader.num_tokens(), values.data());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("trace", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) {
    std::perror("memfd");
    std::abort();
  }
  int outcome = 0;
  try {
    ReadEverything(TraceReader("/proc/self/fd/" + std::to_string(descriptor)));
    outcome = 1;
  } catch (const BadTraceError&) {
  }
  close(descriptor);
  return headscope::data::testing::KeepOutcome(outcome);
}

namespace headscope::data::testing {
namespace {
int last_outcome = 0;
}
int KeepOutcome(int outcome) {
  last_outcome = outcome;
  return 0;  // libFuzzer wants zero
}
int LastOutcome() {
  return last_outcome;
}
}  // namespace headscope::data::testing
