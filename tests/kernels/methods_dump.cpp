// SPDX-License-Identifier: Apache-2.0
// Writes random problems and what every method keeps of them, for tests/oracle/methods_kept_sets.py to compute on its
// own.
//
//   kernels_methods_dump DIR SEED [HEADS]
// HEADS: a file with one KV head and its query heads, recorded from a model, in place of random ones: int32
// num_qo_heads, head_dim, tokens, then q, k and v (fp32, C order). A method that chooses by the steps before is run
// over a generation: its prompt and then every token's step. Per case N: DIR/N.json (shapes, method, parameters),
// DIR/N.q, .k, .v (fp32, C order), and for prefill DIR/N.kept (one byte per (batch, head, row, column)), .o and .lse of
// the reference executor; for decode DIR/N.kept (one byte per (batch, KV head, token)), .alpha, .mean, .o, .lse; for a
// generation DIR/N.kept (one byte per (step, batch, KV head, token)), .components (of ThinK: a byte per
// (batch, KV head, component), and how many tokens have lost the others) and .o of the first step.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generation_steps.h"
#include "kernels/cpu_executor.h"
#include "kernels/decode_driver.h"
#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "methods_dump_settings.h"
#include "prompt_facts.h"
#include "random_problem.h"
#include "recorded_heads.h"

namespace headscope::kernels {
namespace {

using testing::DecodeSettings;
using testing::GenerationSettings;
using testing::PrefillSettings;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::RecordedHeads;

constexpr int32_t kLayersOfModel = 10;

struct Case {
  Phase phase = Phase::kPrefill;
  std::string method;
  std::string parameters;
  ProblemShape shape;
  float scale = 0.0f;
  float soft_cap = 0.0f;
  int32_t layer = -1;
};

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << "kernels_methods_dump: " << message << "\n";
  std::exit(1);
}

class Dumper {
 public:
  Dumper(std::string directory, uint32_t seed) : directory_(std::move(directory)), seed_(seed) {}

  void Write(const Case& c) {
    Write(c, ProblemOfNext(c.method + (c.phase == Phase::kDecode ? " decode" : " prefill"), c.shape));
  }

  void Write(const Case& c, RandomProblem data) {
    data.scale = c.scale;
    data.soft_cap = c.soft_cap;
    AttentionProblem problem = data.View();
    problem.layer = c.layer;
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
                                  {"at_defaults", c.parameters.empty()},
                                  {"batch", c.shape.batch},
                                  {"num_qo_heads", c.shape.num_qo_heads},
                                  {"num_kv_heads", c.shape.num_kv_heads},
                                  {"head_dim", c.shape.head_dim},
                                  {"seq_q", c.shape.seq_q},
                                  {"seq_k", c.shape.seq_k},
                                  {"first_position", c.shape.first_position},
                                  {"scale", c.scale},
                                  {"soft_cap", c.soft_cap},
                                  {"layer", c.layer}};
    std::ofstream(directory_ + "/" + std::to_string(number_) + ".json") << description.dump(1) << "\n";
    ++number_;
  }

  // Every step of a generation whose first `prompt` tokens are there before: what it attends to. `below`: the layers
  // below run beside it, layer n with the query that stands layer - n rows before, so that no two choose alike.
  void WriteGeneration(const std::string& method, const std::string& parameters, const ProblemShape& shape,
                       int32_t prompt, int32_t layer, bool below = false) {
    WriteGeneration(method, parameters, ProblemOfNext(method + " generation", shape), prompt, layer, below);
  }

  void WriteGeneration(const std::string& method, const std::string& parameters, const RandomProblem& data,
                       int32_t prompt, int32_t layer, bool below = false) {
    const ProblemShape& shape = data.shape;
    AttentionProblem whole = data.View();
    whole.layer = layer;
    WriteFile("q", data.q.Values());
    WriteFile("k", data.k.Values());
    WriteFile("v", data.v.Values());
    const DecodeMethod* found = FindDecodeMethod(method);
    ParameterValues values(found->spec());
    if (const std::string error = values.Parse(found->spec(), parameters); !error.empty()) Fail(error);
    DecodeDriver driver(*found, values);
    DecodePrompt begin;
    begin.cache = whole;
    begin.cache.seq_q = begin.cache.seq_k = prompt;
    begin.layer = layer;
    begin.num_layers = kLayersOfModel;
    // Of every other case of a method a model with a window and sinks, whose own LSE is known.
    const int32_t window = generations_[method]++ % 2 == 1 ? prompt / 2 + 1 : 0;
    std::vector<float> sinks, lse;
    if (window > 0) {
      for (int32_t head = 0; head < shape.num_qo_heads; ++head)
        sinks.push_back(0.5f + 0.25f * static_cast<float>(head));
      lse = ModelLse(data, prompt, window, sinks);
      begin.cache.window = window;
      begin.cache.sinks = sinks.data();
      begin.lse = lse.data();
      begin.lse_head_stride = prompt;
      begin.lse_batch_stride = int64_t{prompt} * shape.num_qo_heads;
    }
    const testing::PromptFacts facts(data, prompt);
    facts.Put(&begin);
    WriteFile("q_pre_rope", facts.q_pre_rope.Values());
    WriteFile("value_norms", facts.value_norms);
    std::vector<float> weights;
    Status status = driver.Begin(begin, {});
    std::vector<std::unique_ptr<DecodeDriver>> drivers_below;
    for (int32_t lower = 0; below && lower < layer && status.ok(); ++lower) {
      DecodePrompt of_layer = begin;
      of_layer.layer = lower;
      drivers_below.push_back(std::make_unique<DecodeDriver>(*found, values));
      status = drivers_below.back()->Begin(of_layer, {});
    }
    const auto length = static_cast<size_t>(shape.seq_k);
    std::vector<unsigned char> kept;
    for (int32_t position = prompt; position < shape.seq_k && status.ok(); ++position) {
      DecodeStep step = testing::StepAt(data, position);
      step.problem.layer = layer;
      step.problem.sinks = window > 0 ? sinks.data() : nullptr;
      DecodeSelection selection;
      std::vector<DecodeSelection> made_below(drivers_below.size());
      std::vector<const DecodeSelection*> seen_below;
      for (size_t lower = 0; lower < drivers_below.size() && status.ok(); ++lower) {
        DecodeStep of_layer = step;
        of_layer.problem.q.data =
            static_cast<const char*>(step.problem.q.data) -
            static_cast<int64_t>(drivers_below.size() - lower) * whole.q.row_stride * SizeOf(shape.dtype);
        of_layer.lower_layers = seen_below;
        status = testing::Take(*drivers_below[lower], of_layer, &made_below[lower]);
        seen_below.push_back(&made_below[lower]);
      }
      step.lower_layers = seen_below;
      if (status.ok()) status = testing::Take(driver, step, &selection);
      if (!status.ok()) break;
      if (position == prompt) WriteComponents(selection, step.problem);
      for (int64_t list = 0; list < int64_t{shape.batch} * shape.num_kv_heads; ++list) {
        const size_t at = kept.size();
        kept.resize(at + length, 0);
        for (const int32_t token : TokensOfList(selection, list, position + 1))
          kept[at + static_cast<size_t>(token)] = 1;
        AppendWeights(selection, list, shape, &weights);
      }
    }
    if (!status.ok()) Fail(method + ": " + status.message());
    WriteFile("kept", kept);
    if (!weights.empty()) WriteFile("weights", weights);
    nlohmann::json description = {
        {"method", method},
        {"phase", "generation"},
        {"parameters", values.values()},
        {"at_defaults", parameters.empty()},
        {"batch", shape.batch},
        {"num_qo_heads", shape.num_qo_heads},
        {"num_kv_heads", shape.num_kv_heads},
        {"head_dim", shape.head_dim},
        {"seq_q", shape.seq_q},
        {"seq_k", shape.seq_k},
        {"first_position", 0},
        {"scale", shape.scale},
        {"soft_cap", shape.soft_cap},
        {"prompt", prompt},
        {"window", window},
        {"rope", {testing::PromptFacts::kTheta, testing::PromptFacts::kDims, testing::PromptFacts::kFirst, 1, 1.5}},
        {"sinks", sinks},
        {"num_layers", kLayersOfModel},
        {"layer", layer}};
    std::ofstream(directory_ + "/" + std::to_string(number_) + ".json") << description.dump(1) << "\n";
    ++number_;
  }

 private:
  // Of a selection whose keys have lost components: which are left, and what attention makes of it.
  void WriteComponents(const DecodeSelection& selection, const AttentionProblem& problem) {
    if (selection.components_end == 0) return;
    std::vector<int32_t> left((selection.page_begin.size() - 1) * static_cast<size_t>(problem.head_dim), 0);
    for (size_t list = 0; list + 1 < selection.component_begin.size(); ++list) {
      for (int64_t i = selection.component_begin[list]; i < selection.component_begin[list + 1]; ++i)
        left[list * static_cast<size_t>(problem.head_dim) +
             static_cast<size_t>(selection.components[static_cast<size_t>(i)])] = 1;
    }
    left.push_back(selection.components_end);
    WriteFile("components", left);
    std::vector<float> o(static_cast<size_t>(int64_t{problem.batch} * problem.num_qo_heads * problem.head_dim));
    AttentionOutput output;
    output.o = {o.data(), int64_t{problem.num_qo_heads} * problem.head_dim, problem.head_dim, problem.head_dim};
    if (Status status = DecodeReference(problem, selection, output); !status.ok()) Fail(status.message());
    WriteFile("o", o);
  }

  // [group, tokens] of a list; nothing of a selection without weights.
  static void AppendWeights(const DecodeSelection& selection, int64_t list, const ProblemShape& shape,
                            std::vector<float>* weights) {
    if (selection.weights.empty()) return;
    for (int32_t row = 0; row < selection.weight_rows; ++row) {
      std::vector<float> of_row(static_cast<size_t>(shape.seq_k), 0.0f);
      for (int64_t i = selection.page_begin[static_cast<size_t>(list)];
           i < selection.page_begin[static_cast<size_t>(list) + 1]; ++i)
        of_row[static_cast<size_t>(selection.pages[static_cast<size_t>(i)])] =
            selection.weights[static_cast<size_t>(row) * selection.pages.size() + static_cast<size_t>(i)];
      weights->insert(weights->end(), of_row.begin(), of_row.end());
    }
  }

  // [batch, num_qo_heads, prompt].
  static std::vector<float> ModelLse(const RandomProblem& data, int32_t prompt, int32_t window,
                                     const std::vector<float>& sinks) {
    const ProblemShape& shape = data.shape;
    const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    std::vector<float> lse;
    for (int32_t sequence = 0; sequence < shape.batch; ++sequence) {
      for (int32_t head = 0; head < shape.num_qo_heads; ++head) {
        const int32_t kv_head = head / (shape.num_qo_heads / shape.num_kv_heads);
        for (int32_t row = 0; row < prompt; ++row) {
          double sum = std::exp(static_cast<double>(sinks[static_cast<size_t>(head)]));
          for (int32_t key = std::max(0, row - window + 1); key <= row; ++key) {
            double dot = 0;
            for (int32_t d = 0; d < shape.head_dim; ++d)
              dot += static_cast<double>(data.q.Get(sequence, head, row, d)) * data.k.Get(sequence, kv_head, key, d);
            sum += std::exp(scale * dot);
          }
          lse.push_back(static_cast<float>(std::log(sum)));
        }
      }
    }
    return lse;
  }

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
      for (const int32_t token : TokensOfList(selection, static_cast<int64_t>(list), c.shape.seq_k))
        kept[list * static_cast<size_t>(c.shape.seq_k) + static_cast<size_t>(token)] = 1;
    }
    WriteFile("kept", kept);
    WriteFile("alpha", selection.alpha);
    WriteFile("mean", selection.mean_value);
    WriteFile("weights", selection.weights);
    WriteFile("moved", std::vector<int64_t>{selection.elements_moved});
    return DecodeReference(problem, selection, output);
  }

  template <typename T>
  void WriteFile(const char* extension, const std::vector<T>& values) {
    std::ofstream file(directory_ + "/" + std::to_string(number_) + "." + extension, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
    if (!file) Fail("cannot write to " + directory_);
  }

  // The numbers of the next case of that kind: its own, so that cases of other methods may come and go.
  RandomProblem ProblemOfNext(const std::string& kind, const ProblemShape& shape) {
    std::vector<uint32_t> facts(kind.begin(), kind.end());
    facts.push_back(static_cast<uint32_t>(cases_[kind]++));
    facts.push_back(seed_);
    std::seed_seq seeds(facts.begin(), facts.end());
    std::mt19937 random(seeds);
    return {shape, &random};
  }

  std::string directory_;
  uint32_t seed_;
  std::map<std::string, int> cases_, generations_;  // so far
  int number_ = 0;
};

// Lengths on both sides of every block edge, GQA ratios, queries that are the last rows, keys after the last query,
// batches, storage types.
std::vector<ProblemShape> PrefillShapes() {
  std::vector<ProblemShape> shapes;
  const int32_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 200, 333};
  const int32_t groups[] = {1, 2, 3, 7, 8};
  const int32_t head_dims[] = {16, 80, 16, 96, 32, 16, 192};
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (size_t i = 0; i < std::size(lengths); ++i) {
    const int32_t group = groups[i % std::size(groups)];
    const int32_t num_kv_heads = group > 2 ? 1 : 2;
    const int32_t head_dim = head_dims[i % std::size(head_dims)];
    shapes.push_back({1, group * num_kv_heads, num_kv_heads, head_dim, lengths[i], lengths[i], 0, dtypes[i % 3]});
  }
  shapes.push_back({2, 4, 2, 16, 100, 300, 200, DType::kFloat32});  // the last rows of a prompt
  shapes.push_back({1, 2, 2, 24, 150, 390, 240, DType::kFloat32});
  shapes.push_back({1, 4, 2, 16, 130, 400, 77, DType::kFloat32});  // keys after the last query
  shapes.push_back({1, 2, 1, 32, 1000, 1000, 0, DType::kFloat32});
  return shapes;
}

void WritePrefill(Dumper* dumper) {
  for (const auto& [method, parameters] : PrefillSettings()) {
    for (const ProblemShape& shape : PrefillShapes()) dumper->Write({Phase::kPrefill, method, parameters, shape});
  }
  ProblemShape capped{1, 2, 1, 16, 200, 200, 0, DType::kFloat32};
  dumper->Write({Phase::kPrefill, "vertical-slash", "n_vertical=9,n_slash=9", capped, 0.4f, 3.0f});
  for (const int32_t layer : {0, 1, 2, 3}) {
    for (const char* parameters : {"vertical_stride=3", "vertical_stride=3,dense_layers=3"})
      dumper->Write({Phase::kPrefill, "s2-attention", parameters, capped, 0.0f, 0.0f, layer});
    dumper->Write({Phase::kPrefill, "sliding-window-prefill", "n_local=70,dense_layers=2", capped, 0.0f, 0.0f, layer});
  }
  for (const auto& [method, parameters] : {std::pair{"sample-attention", "alpha_c=0.5,alpha_s=0.5"},
                                           {"flex-prefill", "gamma=0.6,tau=0.3,min_budget=0"},
                                           {"x-attention", "tau=0.6"},
                                           {"sparge-attn", "tau=0.7,theta=0.01"},
                                           {"nsa", "n_blocks=3,n_local=0"},
                                           {"oracle-top-p", "p=0.5"}})
    dumper->Write({Phase::kPrefill, method, parameters, capped, 0.4f, 3.0f});
}

void WriteDecode(Dumper* dumper) {
  const int32_t lengths[] = {1, 2, 64, 129, 500, 2000};
  const int32_t groups[] = {1, 2, 3, 7};
  const int32_t head_dims[] = {32, 80, 32, 96, 192};
  std::map<std::string, int32_t> turns;  // of each method
  for (const auto& [method, parameters] : DecodeSettings()) {
    int32_t& turn = turns[method];
    for (const int32_t length : lengths) {
      const int32_t group = groups[turn % 4], head_dim = length > 500 ? 32 : head_dims[turn % 5];
      ++turn;
      dumper->Write({Phase::kDecode,
                     method,
                     parameters,
                     {1 + turn % 2, 2 * group, 2, head_dim, 1, length, length - 1, static_cast<DType>(turn % 3)}});
    }
  }
  for (const auto& [method, parameters] : {std::pair{"quest", "budget=40"},
                                           {"quest", "budget=40,dense_layers=3"},
                                           {"quest", "budget=40,dense_layers=0"},
                                           {"twilight", "p=0.7,candidates=48"},
                                           {"twilight", "p=0.7,candidates=48,dense_layers=3"},
                                           {"twilight", "p=0.7,candidates=48,bits=exact,dense_layers=0"}}) {
    for (const int32_t layer : {0, 1, 2, 3}) {
      const ProblemShape shape{1, 4, 2, 16, 1, 300, 299, DType::kFloat32};
      dumper->Write({Phase::kDecode, method, parameters, shape, 0.0f, 0.0f, layer});
    }
  }
  dumper->Write({Phase::kDecode, "sparq", "r=6,k=20", {1, 4, 2, 16, 1, 300, 299, DType::kFloat32}, 0.5f, 4.0f});
}

// Methods that take over what lower layers chose; layers below, at and between those that choose, and above.
void WriteLayers(Dumper* dumper, const RandomProblem* recorded) {
  for (int32_t layer = 0; layer < 7; ++layer) {
    for (const char* const parameters : {"k=20,first_layer=1,reselect_layer=3", "k=35,first_layer=2,reselect_layer=0",
                                         "compression_ratio=0.7,first_layer=1,reselect_layer=3"}) {
      if (recorded != nullptr) {
        dumper->WriteGeneration("tidal-decode", parameters, *recorded, recorded->shape.seq_k - 9, layer, true);
      } else {
        const int32_t group = 1 + layer % 3;
        dumper->WriteGeneration("tidal-decode", parameters,
                                {1 + layer % 2, 2 * group, 2, 16, 99, 99, 0, static_cast<DType>(layer % 3)}, 90, layer,
                                true);
      }
    }
  }
}

void WriteGenerations(Dumper* dumper) {
  std::map<std::string, int32_t> turns;  // of each method
  for (const auto& [method, parameters] : GenerationSettings()) {
    int32_t& turn = turns[method];
    for (const int32_t prompt : {20, 90, 131}) {
      const int32_t group = 1 + turn++ % 3;
      dumper->WriteGeneration(method, parameters,
                              {1 + turn % 2, 2 * group, 2, 16, prompt + 9, prompt + 9, 0, static_cast<DType>(turn % 3)},
                              prompt, turn % 8);
    }
  }
}

// Every method as it is when nobody says anything, on lengths at which that is not everything.
void WriteDefaults(Dumper* dumper) {
  // Of a choice among thousands many a one hangs on less than fp32 can tell: one random problem for all runs, and of
  // some methods problems of their own.
  struct Sizes {
    int32_t prompt, rows;
    float deviation;  // of q and k
  };
  // Prompts longer than A-shape's 5,120 tokens and InfLLM-V2's 97 blocks; more rows than a tile has.
  const Sizes prefill{6500, 150, 2.5f}, decode{6500, 1, 2.5f}, generation{1200, 3, 2.5f};
  const std::map<std::string, Sizes> own = {{"flex-prefill", {6500, 150, 5}}, {"infllm-v2", {6500, 1, 2.5f}},
                                            {"twilight", {48, 1, 2.5f}},      {"v-attention", {900, 1, 0.8f}},
                                            {"magic-pig", {90, 3, 2.5f}},     {"l-serve", {4700, 3, 2.5f}},
                                            {"infllm", {6600, 3, 2.5f}},      {"infllm-prefill", {7200, 150, 2.5f}}};
  // A method's problems are its own, whatever others there are; two, because of one some choice may hang on a rounding.
  constexpr uint32_t kDraws[] = {16, 17};
  const auto draw = [](const MethodSpec& spec, uint32_t number) {
    std::vector<uint32_t> seed(spec.name.begin(), spec.name.end());
    seed.push_back(number);
    std::seed_seq sequence(seed.begin(), seed.end());
    return std::mt19937(sequence);
  };
  const auto sizes = [&own](const MethodSpec& spec, const Sizes& usual) {
    const auto found = own.find(spec.name);
    return found == own.end() ? usual : found->second;
  };
  for (const uint32_t number : kDraws) {
    for (const PrefillMethod* method : PrefillMethods()) {
      const Sizes of = sizes(method->spec(), prefill);
      const ProblemShape shape{1, 2, 1, 16, of.rows, of.prompt, of.prompt - of.rows, DType::kFloat32};
      std::mt19937 random = draw(method->spec(), number);
      dumper->Write({Phase::kPrefill, method->spec().name, "", shape}, RandomProblem(shape, &random, of.deviation));
    }
    for (const DecodeMethod* method : DecodeMethods()) {
      const MethodSpec& spec = method->spec();
      std::mt19937 random = draw(spec, number);
      if (!spec.needs_history) {
        const Sizes of = sizes(spec, decode);
        const ProblemShape shape{1, 4, 2, 16, 1, of.prompt, of.prompt - 1, DType::kFloat32};
        dumper->Write({Phase::kDecode, spec.name, "", shape}, RandomProblem(shape, &random, of.deviation));
        continue;
      }
      const Sizes of = sizes(spec, generation);
      const int32_t tokens = of.prompt + of.rows;
      const ProblemShape shape{1, 2, 2, 16, tokens, tokens, 0, DType::kFloat32};
      dumper->WriteGeneration(spec.name, "", RandomProblem(shape, &random, of.deviation), of.prompt, 5,
                              !method->LowerLayers(ParameterValues(spec), 5).empty());
    }
  }
}

void WriteRecorded(Dumper* dumper, const std::string& path) {
  const RandomProblem prefill = RecordedHeads(path, /*decode=*/false), decode = RecordedHeads(path, /*decode=*/true);
  for (const auto& [method, parameters] : PrefillSettings())
    dumper->Write({Phase::kPrefill, method, parameters, prefill.shape}, prefill);
  for (const auto& [method, parameters] : DecodeSettings())
    dumper->Write({Phase::kDecode, method, parameters, decode.shape}, decode);
  for (const auto& [method, parameters] : GenerationSettings())
    dumper->WriteGeneration(method, parameters, prefill, prefill.shape.seq_k - 9, 1);
  WriteLayers(dumper, &prefill);
}

}  // namespace
}  // namespace headscope::kernels

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::cerr << "usage: kernels_methods_dump DIR SEED [HEADS]\n";
    return 2;
  }
  headscope::kernels::Dumper dumper(argv[1], static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)));
  if (argc == 4) {
    headscope::kernels::WriteRecorded(&dumper, argv[3]);
    return 0;
  }
  headscope::kernels::WritePrefill(&dumper);
  headscope::kernels::WriteDecode(&dumper);
  headscope::kernels::WriteGenerations(&dumper);
  headscope::kernels::WriteLayers(&dumper, nullptr);
  headscope::kernels::WriteDefaults(&dumper);
  return 0;
}
