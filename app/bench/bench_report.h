// SPDX-License-Identifier: Apache-2.0
// What a benchmark found: as a table for people and as JSON (schema headscope-bench-1, docs/bench.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/device.h"
#include "bench/accuracy.h"
#include "bench/figure.h"
#include "kernels/seeded_problem.h"

namespace headscope::app::bench {

enum class RowKind : uint8_t {
  kReference,  // LibTorch's dense attention
  kMethod,     // one of ours
  kUpkeep,     // what a method costs beside its steps
};

struct Row {
  RowKind kind = RowKind::kMethod;
  std::string method;
  std::string parameters;  // "k=v,..", or empty
  std::string variant;     // one of several ways to run the method, or empty
  std::string source;      // "libtorch", "fixed", "registry" or "file"
  Figure select_ms;        // no repeats: nothing to select, or select and attend are one launch
  Figure attend_ms;
  Figure total_ms;          // both in one timed run; attend_ms where there is no select
  double sustained_ms = 0;  // both, run after run without pause; 0: not asked for
  Figure read_ms;           // decode on a CPU: the same threads read bytes_moved bytes and do nothing else
  bool own_dense = false;   // headscope's dense attention
  // Of a row in FP8: the row that attends to the same set in 16 bits, if there is one, and how far O is from float64.
  std::string in_16_bits;
  RowErrors errors;
  // Prefill: pairs of query and key, the work of attend_ms; decode: bytes that the whole step, total_ms, has to move.
  int64_t kept_pairs = 0;
  int64_t dense_pairs = 0;
  int64_t bytes_moved = 0;
};

struct Section {
  bool decode = false;
  kernels::SeededProblem shape;
  std::string dtype;
  int32_t v_head_dim = 0;  // where values differ from keys; else 0
  int places = 1;          // copies of K and V that the steps of a sample walk over, one step each
  // The reference first; without times (and then no row has a ratio to it) where LibTorch has no such attention.
  std::vector<Row> rows;
  std::string data;  // a recipe, or the trace and layer that Q, K and V come from
  // Relative L2 distance of our dense output from LibTorch's, on head 0; -1: not looked at.
  double dense_disagreement = -1;
  // Of both, from float64, on some rows of it.
  RowErrors dense_errors = {}, reference_errors = {};
};

struct Ceiling {
  std::string name;  // "matrix product", "copy"
  int64_t size = 0;  // rows of the matrices; bytes of the copy
  double work = 0;   // floating-point operations, bytes moved
  Figure ms;
};

struct Report {
  DeviceKind device_kind = DeviceKind::kCpu;
  std::string device_name, cache_policy;
  std::string reference_name;   // "cuDNN, through LibTorch" or "LibTorch's CPU kernel"
  std::string reference_short;  // "cuDNN" or "LibTorch"
  int repeats = 0;
  bool interrupted = false;
  Ceiling product, copy;  // copy: of a GPU
  std::vector<Section> sections;
};

// Per second, from a median in milliseconds; 0 when nothing was measured.
double Rate(double work, const Figure& ms);

// The figures of a row that are made from others; one place for table and JSON.
struct Ratios {
  double rate = 0;  // FLOP/s of attend_ms at 4 * head_dim per kept pair, or bytes/s of total_ms
  double of_ceiling =
      0;  // rate over the matrix product's or the copy's; the least read_ms over total_ms where there is one
  double rate_to_dense = 0;    // prefill: rate per kept pair over the reference's rate per causal pair
  double faster = 0;           // the reference's time over total_ms
  double faster_than_own = 0;  // that of headscope's dense, where it is among the rows
  double select_share = 0;     // select_ms over select_ms + attend_ms
  double to_16_bits = 0;       // of a row in FP8: the attend_ms of the same set in 16 bits over its own
};
Ratios RatiosOf(const Report& report, const Section& section, const Row& row);

std::string Table(const Report& report);
std::string Json(const Report& report);

}  // namespace headscope::app::bench
