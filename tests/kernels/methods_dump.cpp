// SPDX-License-Identifier: Apache-2.0
// Writes random problems and what every method keeps of them, for tests/oracle/methods_kept_sets.py to compute on its
// own.
//
//   kernels_methods_dump DIR SEED
// Per case N: DIR/N.json (shapes, method, parameters), DIR/N.q, .k, .v (fp32, C order), and for prefill DIR/N.kept (one
// byte per (batch, head, row, column)), .o and .lse of the reference executor; for decode DIR/N.kept (one byte per
// (batch, KV head, token)), .alpha, .mean, .o, .lse.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/cpu_executor.h"
#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "random_problem.h"

namespace headscope::kernels {
namespace {

using testing::ProblemShape;
using testing::RandomProblem;

struct Case {
  Phase phase = Phase::kPrefill;
  std::string method;
  std::string parameters;
  ProblemShape shape;
  float scale = 0.0f;
  float soft_cap = 0.0f;
};

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << "kernels_methods_dump: " << message << "\n";
  std::exit(1);
}

class Dumper {
 public:
  Dumper(std::string directory, uint32_t seed) : directory_(std::move(directory)), random_(seed) {}

  void Write(const Case& c) {
    RandomProblem data(c.shape, &random_);
    data.scale = c.scale;
    data.soft_cap = c.soft_cap;
    const AttentionProblem problem = data.View();
    const bool decode = c.phase == Phase::kDecode;
    WriteFile("q", data.q.Values());
    WriteFile("k", data.k.Values());
    WriteFile("v", data.v.Values());
    const MethodSpec& spec = decode ? FindDecodeMethod(c.method)->spec() : FindPrefillMethod(c.method)->spec();
    ParameterValues values(spec);
    const std::string error = values.Parse(spec, c.parameters);
    if (!error.empty()) Fail(error);

    std::vector<float> o(static_cast<size_t>(c.shape.batch) * static_cast<size_t>(c.shape.num_qo_heads) *
                         static_cast<size_t>(c.shape.seq_q) * static_cast<size_t>(c.shape.head_dim));
    std::vector<float> lse(o.size() / static_cast<size_t>(c.shape.head_dim));
    AttentionOutput output;
    output.o = {o.data(), int64_t{c.shape.num_qo_heads} * c.shape.seq_q * c.shape.head_dim,
                int64_t{c.shape.seq_q} * c.shape.head_dim, c.shape.head_dim};
    output.lse = lse.data();
    const Status status = decode ? Decode(c, problem, values, output) : Prefill(c, problem, values, output);
    if (!status.ok()) Fail(c.method + ": " + status.message());
    WriteFile("o", o);
    WriteFile("lse", lse);

    nlohmann::json description = {{"method", c.method},
                                  {"phase", decode ? "decode" : "prefill"},
                                  {"parameters", values.values()},
                                  {"batch", c.shape.batch},
                                  {"num_qo_heads", c.shape.num_qo_heads},
                                  {"num_kv_heads", c.shape.num_kv_heads},
                                  {"head_dim", c.shape.head_dim},
                                  {"seq_q", c.shape.seq_q},
                                  {"seq_k", c.shape.seq_k},
                                  {"first_position", c.shape.first_position},
                                  {"scale", c.scale},
                                  {"soft_cap", c.soft_cap}};
    std::ofstream(directory_ + "/" + std::to_string(number_) + ".json") << description.dump(1) << "\n";
    ++number_;
  }

 private:
  Status Prefill(const Case& c, const AttentionProblem& problem, const ParameterValues& values,
                 const AttentionOutput& output) {
    SparseIndex index;
    Status status = FindPrefillMethod(c.method)->Select(problem, values, {}, &index);
    if (status.ok()) status = Validate(index.View());
    if (!status.ok()) return status;
    const size_t row_size = static_cast<size_t>(c.shape.seq_k);
    std::vector<unsigned char> kept;
    std::vector<ColumnRange> ranges;
    for (int32_t sequence = 0; sequence < c.shape.batch; ++sequence) {
      for (int32_t head = 0; head < c.shape.num_qo_heads; ++head) {
        for (int32_t row = 0; row < c.shape.seq_q; ++row) {
          ranges.clear();
          AppendKeptRanges(index.View(), sequence, head, row, &ranges);
          const size_t at = kept.size();
          kept.resize(at + row_size, 0);
          for (const ColumnRange& range : ranges) {
            for (int32_t column = range.begin; column < range.end; ++column) kept[at + static_cast<size_t>(column)] = 1;
          }
        }
      }
    }
    WriteFile("kept", kept);
    return AttendReference(problem, index.View(), output);
  }

  Status Decode(const Case& c, const AttentionProblem& problem, const ParameterValues& values,
                const AttentionOutput& output) {
    DecodeSelection selection;
    const Status status = FindDecodeMethod(c.method)->Select(problem, values, {}, &selection);
    if (!status.ok()) return status;
    const size_t num_lists = selection.page_begin.size() - 1;
    std::vector<unsigned char> kept(num_lists * static_cast<size_t>(c.shape.seq_k), 0);
    for (size_t list = 0; list < num_lists; ++list) {
      for (int64_t i = selection.page_begin[list]; i < selection.page_begin[list + 1]; ++i) {
        kept[list * static_cast<size_t>(c.shape.seq_k) + static_cast<size_t>(selection.pages[static_cast<size_t>(i)])] =
            1;
      }
    }
    WriteFile("kept", kept);
    WriteFile("alpha", selection.alpha);
    WriteFile("mean", selection.mean_value);
    WriteFile("moved", std::vector<int64_t>{selection.elements_moved});
    return DecodeReference(problem, selection, output);
  }

  template <typename T>
  void WriteFile(const char* extension, const std::vector<T>& values) {
    std::ofstream file(directory_ + "/" + std::to_string(number_) + "." + extension, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
    if (!file) Fail("cannot write to " + directory_);
  }

  std::string directory_;
  std::mt19937 random_;
  int number_ = 0;
};

// Lengths on both sides of every block edge, GQA ratios, queries that are the last rows, keys after the last query,
// batches, storage types.
std::vector<ProblemShape> PrefillShapes() {
  std::vector<ProblemShape> shapes;
  const int32_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 200, 333};
  const int32_t groups[] = {1, 2, 4, 7, 8};
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (size_t i = 0; i < std::size(lengths); ++i) {
    const int32_t group = groups[i % std::size(groups)];
    const int32_t num_kv_heads = group > 2 ? 1 : 2;
    shapes.push_back({1, group * num_kv_heads, num_kv_heads, 16, lengths[i], lengths[i], 0, dtypes[i % 3]});
  }
  shapes.push_back({2, 4, 2, 16, 100, 300, 200, DType::kFloat32});  // the last rows of a prompt
  shapes.push_back({1, 2, 2, 24, 150, 390, 240, DType::kFloat32});
  shapes.push_back({1, 4, 2, 16, 130, 400, 77, DType::kFloat32});  // keys after the last query
  shapes.push_back({1, 2, 1, 32, 1000, 1000, 0, DType::kFloat32});
  return shapes;
}

void WritePrefill(Dumper* dumper) {
  const std::pair<const char*, const char*> settings[] = {
      {"dense", ""},
      {"a-shape", "n_sink=7,n_local=50"},
      {"a-shape", "n_sink=0,n_local=1"},
      {"vertical-slash", "n_vertical=12,n_slash=5,forced_columns=0,forced_slashes=0"},
      {"vertical-slash", "n_vertical=40,n_slash=40,forced_columns=4,forced_slashes=9,last_q=16"},
      {"vertical-slash", "n_vertical=300,n_slash=2,forced_columns=0,forced_slashes=0"},
      {"block-sparse", "n_blocks=1"},
      {"block-sparse", "n_blocks=3"},
      {"s2-attention", "local_blocks=1,vertical_stride=3"},
      {"s2-attention",
       "local_blocks=2,vertical_stride=4,head_step=3,offset=1,subtract_offset=1,per_kv_head=1,max_distance=5"},
      {"sample-attention", "alpha_c=0.6,alpha_s=0.5"},
      {"sample-attention", "alpha_c=0.4,alpha_s=0.3,chunk_n=3,keep_diagonal=1"},
      {"sample-attention", "alpha_c=0.5,alpha_s=0.2,chunk_n=2,own_rows_only=1"},
  };
  for (const auto& [method, parameters] : settings) {
    for (const ProblemShape& shape : PrefillShapes()) dumper->Write({Phase::kPrefill, method, parameters, shape});
  }
  ProblemShape capped{1, 2, 1, 16, 200, 200, 0, DType::kFloat32};
  dumper->Write({Phase::kPrefill, "vertical-slash", "n_vertical=9,n_slash=9,forced_columns=0,forced_slashes=0", capped,
                 0.4f, 3.0f});
  dumper->Write({Phase::kPrefill, "sample-attention", "alpha_c=0.5,alpha_s=0.5", capped, 0.4f, 3.0f});
}

void WriteDecode(Dumper* dumper) {
  const int32_t lengths[] = {1, 2, 64, 129, 500, 2000};
  const int32_t groups[] = {1, 2, 4, 7};
  const std::pair<const char*, const char*> settings[] = {
      {"dense", ""},
      {"sliding-window", "n_local=20,n_sink=4"},
      {"sliding-window", "n_local=1"},
      {"sparq", "r=4,k=16"},
      {"sparq", "r=1,k=5,local_share=1"},
      {"sparq", "r=64,k=40,local_share=0"},
      {"sparq", "r=8,k=30,reallocate=0"},
  };
  int32_t turn = 0;
  for (const auto& [method, parameters] : settings) {
    for (const int32_t length : lengths) {
      const int32_t group = groups[turn++ % 4];
      dumper->Write({Phase::kDecode,
                     method,
                     parameters,
                     {1 + turn % 2, 2 * group, 2, 32, 1, length, length - 1, static_cast<DType>(turn % 3)}});
    }
  }
  dumper->Write({Phase::kDecode, "sparq", "r=6,k=20", {1, 4, 2, 16, 1, 300, 299, DType::kFloat32}, 0.5f, 4.0f});
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: kernels_methods_dump DIR SEED\n";
    return 2;
  }
  headscope::kernels::Dumper dumper(argv[1], static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)));
  headscope::kernels::WritePrefill(&dumper);
  headscope::kernels::WriteDecode(&dumper);
  return 0;
}
