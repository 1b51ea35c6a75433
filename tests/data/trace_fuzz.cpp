// SPDX-License-Identifier: Apache-2.0
// libFuzzer entry for the trace reader: whatever the bytes, it reads them or throws BadInputError. Also called by
// trace_fuzz_test.cpp.
#include "trace_fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/trace_reader.h"

namespace {

using headscope::BadInputError;
using headscope::data::TraceReader;
using headscope::data::TraceTensor;

void ReadEverything(const TraceReader& reader) {
  const auto& layout = reader.layout();
  const int64_t most = std::max(reader.num_rows(), reader.num_tokens());
  for (size_t slot = 0; slot < layout.layers.size(); ++slot) {
    const auto layer = static_cast<int32_t>(slot);
    const auto& facts = reader.layer(layer);
    const int64_t widest =
        std::max({facts.head_dim, facts.v_head_dim, facts.selection.ids, facts.selection.index_dim, facts.hidden_size});
    std::vector<char> values(static_cast<size_t>(most * widest) * 4 + 4);
    const auto read = [&](TraceTensor tensor, int64_t heads, int64_t count) {
      for (int32_t head = 0; reader.Has(layer, tensor) && head < heads; ++head) {
        reader.Read(tensor, layer, head, 0, count, values.data());
      }
    };
    const auto qo_heads = std::ssize(facts.qo_heads), kv_heads = std::ssize(facts.kv_heads);
    for (const TraceTensor tensor : {TraceTensor::kQ, TraceTensor::kLse, TraceTensor::kQPreRope,
                                     TraceTensor::kQProjection, TraceTensor::kHeadOutput})
      read(tensor, qo_heads, reader.num_rows());
    for (const TraceTensor tensor : {TraceTensor::kK, TraceTensor::kV, TraceTensor::kKPreRope,
                                     TraceTensor::kKProjection, TraceTensor::kCacheK, TraceTensor::kCacheV})
      read(tensor, kv_heads, reader.num_tokens());
    read(TraceTensor::kValueNorms, qo_heads, reader.num_tokens());
    read(TraceTensor::kValueNormsL1, qo_heads, reader.num_tokens());
    read(TraceTensor::kHiddenNorms, 1, reader.num_tokens());
    read(TraceTensor::kResidual, 1, reader.num_tokens());
    read(TraceTensor::kSelection, facts.selection.sets, reader.num_rows());
    read(TraceTensor::kIndexQ, facts.selection.index_heads, reader.num_rows());
    read(TraceTensor::kIndexWeights, facts.selection.index_heads, reader.num_rows());
    read(TraceTensor::kIndexK, facts.selection.index_kv_heads, reader.num_tokens());
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
  } catch (const BadInputError&) {
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
