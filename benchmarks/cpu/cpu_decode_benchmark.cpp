// SPDX-License-Identifier: Apache-2.0
// One decode step on the CPU beside LibTorch's dense attention, in one run.
//
// Method: K and V lie in memory as many times as fill --ring-mib, and every step walks on to the next copy, as a model
// walks over its layers and heads: what a step reads was last touched a whole walk ago (--warm: one copy, read again
// and again). A sample is as many steps as take --sample-ms; every round samples every case once, in a new order.
// Printed are the median over the rounds, "spread", the median absolute deviation from it, and the least; ratios are of
// the least, which other work of the machine disturbs least. "over LibTorch" and "own dense": that dense step's time
// over the case's; SparQ's are select and attend together, and what it keeps beside the cache is made beforehand. "of
// reading": the time in which the same threads read as many bytes as the case moves, and do nothing else, over the
// case's; nothing that counts its bytes rightly exceeds 1 by more than the scatter.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/device.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_memory.h"
#include "kernels/cpu_sparq.h"
#include "kernels/decode_method.h"
#include "kernels/narrow_floats.h"
#include "model/reference_attention.h"

namespace {

using namespace headscope::kernels;
using headscope::model::MakeReferenceAttention;
using headscope::model::ReferenceAttention;

struct Settings {
  int32_t rounds = 9;
  double sample_ms = 3;
  int64_t ring_mib = 256;
  bool warm = false;
};

struct Shape {
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t seq_len;
  int32_t head_dim;
  DType dtype;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double SpreadInPercent(const std::vector<double>& values) {
  const double median = Median(values);
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - median));
  return 100.0 * Median(deviations) / median;
}

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "cpu_decode_benchmark: %s\n", status.message().c_str());
  std::exit(1);
}

// Random normal elements of the shape's type.
std::vector<char> Tensor(const Shape& shape, int64_t rows, std::mt19937& random) {
  std::normal_distribution<float> normal;
  const int64_t count = rows * shape.head_dim;
  std::vector<char> bytes(static_cast<size_t>(count * SizeOf(shape.dtype)));
  for (int64_t i = 0; i < count; ++i) {
    const float value = normal(random);
    if (shape.dtype == DType::kFloat32) {
      std::memcpy(bytes.data() + i * 4, &value, 4);
    } else {
      const uint16_t half = RoundToBFloat16(value);
      std::memcpy(bytes.data() + i * 2, &half, 2);
    }
  }
  return bytes;
}

// One place of the walk: a cache of its own.
struct Place {
  std::vector<char> k, v;
  AttentionProblem problem;
  std::unique_ptr<ReferenceAttention> libtorch;
  DecodeSelection dense;
  // What SparQ keeps beside the cache.
  std::vector<std::byte> memory;
  TransposedKeys keys;
  std::vector<float> mean;
};

struct Case {
  std::string name;
  std::function<void(Place&)> step;
  double bytes;  // that a step has to move
  std::vector<double> seconds;
  bool ceiling;  // reads as many bytes as the case in front of it moves
};

class Comparison {
 public:
  Comparison(const Shape& shape, const Settings& settings, const RunOptions& options)
      : shape_(shape), settings_(settings), options_(options) {
    std::mt19937 random(1);
    const int64_t rows = int64_t{shape.num_kv_heads} * shape.seq_len;
    q_ = Tensor(shape, shape.num_qo_heads, random);
    sparq_ = {.rank = shape.head_dim / 4, .num_tokens = std::min(128, shape.seq_len), .num_local = 0};
    sparq_.num_local = sparq_.num_tokens / 4;
    o_.resize(static_cast<size_t>(shape.num_qo_heads * shape.head_dim));
    dense_bytes_ = 2.0 * static_cast<double>(rows * shape.head_dim * SizeOf(shape.dtype));
    const double ring = static_cast<double>(settings.ring_mib << 20);
    const size_t places = settings.warm ? 1 : static_cast<size_t>(std::ceil(ring / dense_bytes_));
    for (size_t i = 0; i < places; ++i) {
      auto place = std::make_unique<Place>();
      place->k = i == 0 ? Tensor(shape, rows, random) : places_[0]->k;
      place->v = i == 0 ? Tensor(shape, rows, random) : places_[0]->v;
      Prepare(place.get());
      places_.push_back(std::move(place));
    }
    output_.o = ContiguousTensor<void>(o_.data(), shape.num_qo_heads, 1, shape.head_dim);
  }

  void Run() {
    std::vector<Case> cases = Cases();
    for (Case& one : cases) Sample(&one, 2);  // warms up, and finds how long a step takes
    std::vector<size_t> order;
    for (size_t i = 0; i < cases.size(); ++i) order.push_back(i);
    std::vector<int64_t> steps;
    for (Case& one : cases) {
      steps.push_back(std::clamp<int64_t>(static_cast<int64_t>(settings_.sample_ms * 1e-3 / one.seconds[0]), 2, 1000));
      one.seconds.clear();
    }
    std::mt19937 random(7);
    for (int32_t round = 0; round < settings_.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) Sample(&cases[i], steps[i]);
    }
    Print(cases);
  }

 private:
  void Prepare(Place* place) {
    AttentionProblem& problem = place->problem;
    problem.num_qo_heads = shape_.num_qo_heads;
    problem.num_kv_heads = shape_.num_kv_heads;
    problem.head_dim = shape_.head_dim;
    problem.seq_q = 1;
    problem.seq_k = shape_.seq_len;
    problem.first_position = shape_.seq_len - 1;
    problem.dtype = shape_.dtype;
    SetContiguousTensors(q_.data(), place->k.data(), place->v.data(), &problem);
    place->libtorch = MakeReferenceAttention({.q = q_.data(),
                                              .k = place->k.data(),
                                              .v = place->v.data(),
                                              .dtype = headscope::ElementTypeOf(shape_.dtype),
                                              .num_qo_heads = shape_.num_qo_heads,
                                              .num_kv_heads = shape_.num_kv_heads,
                                              .head_dim = shape_.head_dim,
                                              .seq_len = shape_.seq_len,
                                              .seq_q = 1},
                                             headscope::kCpu, options_.num_threads);
    const DecodeMethod* const dense = FindDecodeMethod("dense");
    Require(dense->Select(problem, ParameterValues(dense->spec()), options_, &place->dense));
    Require(TransposeKeysCpu(problem, options_, &place->memory, &place->keys));
    place->mean.resize(static_cast<size_t>(shape_.num_kv_heads * shape_.head_dim));
    Require(MeanValueCpu(problem, options_, place->mean.data()));
  }

  std::vector<Case> Cases() {
    std::vector<Case> cases;
    const auto add = [&](const std::string& name, double bytes, std::function<void(Place&)> step) {
      cases.push_back({name, std::move(step), bytes, {}, false});
      // K and V lie one behind the other in no place, so the words come from K and, where it is too short, V.
      const auto words = static_cast<int64_t>(bytes);
      cases.push_back({"  reading as much", [this, words](Place& place) { Read(place, words); }, bytes, {}, true});
    };
    add("LibTorch dense", dense_bytes_, [](Place& place) { place.libtorch->Run(); });
    add("headscope dense", dense_bytes_,
        [this](Place& place) { Require(DecodeCpu(place.problem, place.dense, output_, options_)); });
    const double element = static_cast<double>(SizeOf(shape_.dtype)), heads = shape_.num_kv_heads;
    const double rows = 2.0 * sparq_.num_tokens * shape_.head_dim * element * heads;
    add("SparQ", rows + heads * sparq_.rank * shape_.seq_len * element, [this](Place& place) {
      Require(SelectSparqCpu(place.problem, sparq_, place.keys, place.mean.data(), options_, &chosen_));
      Require(DecodeCpu(place.problem, chosen_, output_, options_));
    });
    add("SparQ, one copy of K", rows + dense_bytes_ / 2, [this](Place& place) {
      Require(SelectSparqCpu(place.problem, sparq_, {}, place.mean.data(), options_, &chosen_));
      Require(DecodeCpu(place.problem, chosen_, output_, options_));
    });
    return cases;
  }

  void Read(const Place& place, int64_t bytes) {
    const auto half = static_cast<int64_t>(place.k.size());
    uint64_t parity = 0;
    Require(ReadCpu(place.k.data(), std::min(bytes, half), options_, &parity));
    if (bytes > half) Require(ReadCpu(place.v.data(), std::min(bytes - half, half), options_, &parity));
  }

  void Sample(Case* one, int64_t steps) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < steps; ++i) one->step(*places_[next_++ % places_.size()]);
    one->seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
                           static_cast<double>(steps));
  }

  void Print(const std::vector<Case>& cases) const {
    std::printf("%d:%d heads, %d tokens, head_dim %d, %s, %d threads, %zu copies of K and V\n", shape_.num_qo_heads,
                shape_.num_kv_heads, shape_.seq_len, shape_.head_dim, shape_.dtype == DType::kFloat32 ? "fp32" : "bf16",
                options_.num_threads, places_.size());
    const double libtorch = Least(cases[0].seconds), own = Least(cases[2].seconds);
    for (size_t i = 0; i + 1 < cases.size(); i += 2) {
      const Case& one = cases[i];
      const double least = Least(one.seconds);
      std::printf(
          "  %-22s %9.1f us  spread %4.1f %%  least %9.1f us  over LibTorch %5.2f  own dense %5.2f  of reading %4.2f\n",
          one.name.c_str(), 1e6 * Median(one.seconds), SpreadInPercent(one.seconds), 1e6 * least, libtorch / least,
          own / least, Least(cases[i + 1].seconds) / least);
    }
    std::fflush(stdout);
  }

  const Shape shape_;
  const Settings settings_;
  const RunOptions options_;
  std::vector<char> q_;
  std::vector<float> o_;
  AttentionOutput output_;
  SparqCudaOptions sparq_;  // r = head_dim / 4, k = 128, a quarter of them the newest
  DecodeSelection chosen_;
  std::vector<std::unique_ptr<Place>> places_;
  double dense_bytes_ = 0;
  size_t next_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A decode step beside LibTorch's dense attention, in shuffled turns."};
  Settings settings;
  RunOptions options{.num_threads = 1};
  std::vector<int> lengths{1024, 4096, 16384}, head_dims{64, 128};
  std::vector<std::string> dtypes{"fp32", "bf16"};
  int query_heads = 1, kv_heads = 1;
  app.add_option("--rounds", settings.rounds, "samples of every case")->check(CLI::Range(1, 1000));
  app.add_option("--sample-ms", settings.sample_ms, "about how long a sample takes")->check(CLI::Range(0.01, 1000.0));
  app.add_option("--ring-mib", settings.ring_mib, "memory of K and V that the steps walk over")
      ->check(CLI::Range(1, 1 << 16));
  app.add_flag("--warm", settings.warm, "read one K and V again and again");
  app.add_option("--threads", options.num_threads, "threads of all cases")->check(CLI::Range(1, 1024));
  app.add_option("--lengths", lengths, "tokens")->check(CLI::Range(1, 1 << 24));
  app.add_option("--head-dims", head_dims, "components")->check(CLI::Range(8, 256));
  app.add_option("--dtypes", dtypes, "fp32, bf16")->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--query-heads", query_heads, "query heads, a multiple of the KV heads")->check(CLI::Range(1, 4096));
  app.add_option("--kv-heads", kv_heads, "KV heads")->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);
  for (const std::string& dtype : dtypes) {
    for (const int head_dim : head_dims) {
      for (const int length : lengths) {
        Comparison({query_heads, kv_heads, length, head_dim, dtype == "fp32" ? DType::kFloat32 : DType::kBFloat16},
                   settings, options)
            .Run();
      }
    }
  }
}
