// SPDX-License-Identifier: Apache-2.0
// What to time: fixed index sets, registered methods, saved index files; and on which problems.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/trace_heads.h"
#include "data/index_file.h"
#include "kernels/decode_method.h"
#include "kernels/fixed_index.h"
#include "kernels/method.h"
#include "kernels/seeded_problem.h"
#include "kernels/sparse_index.h"

namespace headscope::app::bench {

// One of four: exactly one of the pointers is set, or none for a fixed set.
struct Workload {
  std::string name;        // as typed
  std::string parameters;  // "k=v,..", every parameter of a registered method
  kernels::FixedSet fixed;
  bool fp8 = false;           // attends to quantised tensors
  int32_t latent_tokens = 0;  // of latent/tokens-N: N, on a problem of its own (bench/latent_tokens.h); else 0
  const kernels::PrefillMethod* prefill = nullptr;
  const kernels::DecodeMethod* decode = nullptr;
  std::shared_ptr<const kernels::SparseIndex> saved;  // from a file
  kernels::ParameterValues values;

  const char* source() const;  // "fixed", "registry" or "file"
};

// Splits "a,b:k=v,k=v,c" into a | b:k=v,k=v | c: a part with '=' and no ':' before it goes on with the method in front
// of it.
std::vector<std::string> SplitMethods(const std::vector<std::string>& texts);
// A fixed set, one attended to in FP8 ("fp8/NAME"), lists of chosen tokens ("latent/tokens-N"), a registered method
// ("NAME[:k=v,..]"; "decode/dense" for the decode one of two) or UsageError.
Workload ParseWorkload(const std::string& text);
// Refuses (BadInputError) a method of a file that is of another model than the trace's.
void CheckWorkloadIsOfModel(const Workload& workload, const TraceHeads& trace);

// All workloads of one group run on the same Q, K and V. `shape` is a prompt's (seq_q == seq_k); decode workloads use
// its last query row's place with a query of their own.
struct Group {
  kernels::SeededProblem shape;
  std::shared_ptr<const TraceHeads> trace;  // whose Q, K and V these are; null: the shape's seeded ones
  kernels::DType dtype = kernels::DType::kBFloat16;
  std::vector<Workload> workloads;
};

// Sets the data of groups of `group`'s kind: "seeded", "rising[:NATS]", "peaky[:NATS]", "local[:NATS]" or
// "trace:FILE[:LAYER]", which sets heads and head_dim as well, of the layers that are `taken`. Throws UsageError,
// BadInputError.
void SetData(const std::string& text, Group* group, TakenLayers taken = TakenLayers::kAny);

// A group of the one index in the file. Throws BadInputError (exit code 3) when the file or the index in it is not
// valid.
Group ReadGroup(const std::string& path);
data::IndexFile ToFile(const Group& group, const Workload& workload, const kernels::SparseIndex& index);
// "<method>-<length>.h5" with what a file system or shell could stumble over replaced.
std::string IndexFileName(const Workload& workload, int32_t length);

}  // namespace headscope::app::bench
