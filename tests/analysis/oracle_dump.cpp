// SPDX-License-Identifier: Apache-2.0
// analysis_oracle_dump FOLDER [TRACE LAYER:HEAD,..]: writes what headscope says of some heads for
// tests/oracle/analysis_oracle.py to check. Without a trace it writes a small one, FOLDER/whole.h5, and parts of it,
// cut.h5 and barely_cut.h5, and what it says of each lies in a folder of that name.
//
// statistics.json is the command line's own; details.json names arrays that lie beside it as raw little-endian numbers.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "analysis/compare.h"
#include "analysis/result_files.h"
#include "analysis/statistics.h"
#include "analysis/tiles.h"
#include "data/trace_export.h"
#include "data/trace_reader.h"
#include "data/trace_writer.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kTokens = 900;
constexpr int32_t kWindow = 300;  // of the second layer's model
constexpr int32_t kQoHeads = 4, kKvHeads = 2, kHeadDim = 32;

// Scale, soft cap, window and sink are the layer's.
float LogSumExp(const data::LayerFacts& facts, int64_t head, const float* query, const float* keys, int64_t row) {
  std::vector<double> scores;
  if (!facts.sinks.empty()) scores.push_back(static_cast<double>(facts.sinks[static_cast<size_t>(head)]));
  for (int64_t column = facts.FirstSeen(row); column <= row; ++column) {
    double dot = 0;
    for (int64_t i = 0; i < facts.head_dim; ++i)
      dot += static_cast<double>(query[i]) * static_cast<double>(keys[column * facts.head_dim + i]);
    const auto cap = static_cast<double>(facts.soft_cap);
    const double score = dot * static_cast<double>(facts.softmax_scale);
    scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  return static_cast<float>(largest + std::log(sum));
}

// Keys with outliers, a sink and a slowly turning part, so that heads have sinks, windows and long tails.
void WriteTrace(const std::string& path, const data::TraceLayout& layout) {
  const int64_t tokens = layout.max_tokens;
  data::TraceWriter writer(path, layout, /*overwrite=*/true);
  std::vector<data::TokenRecord> records(static_cast<size_t>(tokens));
  for (size_t i = 0; i < records.size(); ++i) records[i].id = static_cast<int32_t>(i * i % 61);
  writer.AppendTokens(records);
  std::vector<int32_t> positions(static_cast<size_t>(tokens));
  for (int32_t i = 0; i < tokens; ++i) positions[static_cast<size_t>(i)] = i;
  writer.AppendRowPositions(positions);
  std::mt19937 random(20);
  std::normal_distribution<float> normal;
  for (size_t layer = 0; layer < layout.facts.size(); ++layer) {
    const data::LayerFacts& facts = layout.facts[layer];
    const int64_t head_dim = facts.head_dim;
    std::vector<float> q(static_cast<size_t>(facts.num_qo_heads * tokens * head_dim)),
        k(static_cast<size_t>(facts.num_kv_heads * tokens * head_dim)),
        v(static_cast<size_t>(facts.num_kv_heads * tokens * facts.v_head_dim)),
        lse(static_cast<size_t>(facts.num_qo_heads * tokens));
    for (float& value : k) value = normal(random);
    for (float& value : v) value = normal(random);
    for (int64_t head = 0; head < facts.num_qo_heads; ++head) {
      const float* keys = k.data() + head / facts.GroupSize() * tokens * head_dim;
      for (int64_t row = 0; row < tokens; ++row) {
        float* query = q.data() + (head * tokens + row) * head_dim;
        for (int64_t i = 0; i < head_dim; ++i) {
          query[i] = 0.7f * normal(random) * (i == 3 ? 4.0f : 1.0f) + 0.3f * static_cast<float>(head) * keys[i] +
                     0.5f * keys[row / 2 * head_dim + i];
        }
        lse[static_cast<size_t>(head * tokens + row)] = LogSumExp(facts, head, query, keys, row);
      }
    }
    data::LayerBlock block;
    block.layer_slot = static_cast<int32_t>(layer);
    block.num_tokens = block.num_rows = tokens;
    block.q = q.data();
    block.k = k.data();
    block.v = v.data();
    block.lse = lse.data();
    // Any other numbers will do for those before RoPE.
    std::vector<float> pre_rope = q;
    for (size_t i = 0; i < pre_rope.size(); ++i) pre_rope[i] *= static_cast<float>(1 + i % 5);
    if (facts.has_pre_rope) {
      block.Set(data::TraceTensor::kQPreRope, pre_rope.data());
      block.Set(data::TraceTensor::kKPreRope, k.data());
    }
    writer.Append(block);
  }
  writer.Finish();
}

data::TraceLayout OracleLayout() {
  data::TraceLayout layout;
  layout.model.name = "oracle";
  layout.model.model_type = "llama";
  layout.model.config_json = "{}";
  layout.model.weights_sha256 = std::string(64, '0');
  layout.model.tokenizer_sha256 = std::string(64, '0');
  layout.model.num_layers = 2;
  layout.model.num_qo_heads = kQoHeads;
  layout.model.num_kv_heads = kKvHeads;
  layout.model.head_dim = kHeadDim;
  layout.layers = {0, 1};
  layout.facts.assign(2, data::UsualFacts(layout.model));
  layout.facts[1].window = kWindow;
  for (data::LayerFacts& facts : layout.facts) facts.has_pre_rope = true;
  layout.encoding = data::Encoding::kFloat32;
  layout.max_tokens = kTokens;
  return layout;
}

// Three layers that differ: keys of 192 and values of 128 components; a window, learned sinks and a soft cap, with
// other heads; values that are the first components of the keys.
data::TraceLayout DifferingLayout() {
  data::TraceLayout layout = OracleLayout();
  layout.model.num_layers = 4;
  layout.layers = {0, 1, 3};
  layout.facts.resize(3);
  data::LayerFacts& latent = layout.facts[0];
  latent.has_pre_rope = false;
  latent.head_dim = 192;
  latent.v_head_dim = 128;
  latent.softmax_scale = 0.07f;
  layout.facts[1] = {.num_qo_heads = 6,
                     .num_kv_heads = 3,
                     .head_dim = 64,
                     .v_head_dim = 64,
                     .qo_heads = {0, 1, 2, 3, 4, 5},
                     .kv_heads = {0, 1, 2},
                     .softmax_scale = 0.125f,
                     .soft_cap = 20,
                     .window = 90,
                     .sinks = {0, 3, 5.5f, -4, 8, 1}};
  data::LayerFacts& alias = layout.facts[2] = layout.facts[1];
  alias.num_qo_heads = 2;
  alias.num_kv_heads = 1;
  alias.qo_heads = {0, 1};
  alias.kv_heads = {0};
  alias.window = 0;
  alias.soft_cap = 0;
  alias.sinks = {2, 4};
  alias.v_head_dim = 48;
  alias.v_is_k = true;
  layout.max_tokens = 700;
  return layout;
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error(path + ": not written");
}

template <typename Value>
void WriteArray(const std::string& path, const std::vector<Value>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(Value)));
  if (!file.flush()) throw std::runtime_error(path + ": not written");
}

void WriteRanges(const kernels::SparseIndexView& index, const std::string& path) {
  std::vector<kernels::ColumnRange> ranges;
  std::vector<int64_t> offsets = {0};
  for (int32_t row = 0; row < index.seq_q; ++row) {
    kernels::AppendKeptRanges(index, 0, 0, row, &ranges);
    offsets.push_back(static_cast<int64_t>(ranges.size()));
  }
  WriteArray(path + ".ranges", ranges);
  WriteArray(path + ".offsets", offsets);
}

// Kept ranges of every row and headscope's mass of them, for every prefill method: NAME.offsets, int64 [rows + 1], of
// each row's first range; NAME.ranges, int32 [ranges, 2]; NAME.mass, float32 [rows].
nlohmann::json Masks(const HeadTensorsPtr& head, const std::string& folder, const std::string& prefix) {
  nlohmann::json all = nlohmann::json::array();
  const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head, 2, {});
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    MaskPreview preview;
    const kernels::Status status =
        PreviewMask(*mass, *method, kernels::ParameterValues(method->spec()), 2, {}, &preview);
    if (!status.ok()) throw std::runtime_error(status.message());
    const std::string name = prefix + "-" + method->spec().name;
    WriteRanges(preview.index->View(), folder + "/" + name);
    WriteArray(folder + "/" + name + ".mass", preview.kept_mass);
    all.push_back({{"method", method->spec().name},
                   {"name", name},
                   {"cra_min", preview.summary.cra_min},
                   {"cra_p5", preview.summary.cra_p5},
                   {"cra_mean", preview.summary.cra_mean},
                   {"kept_fraction", preview.summary.kept_fraction}});
  }
  return all;
}

// The tiles at the map's top left of every level: NAME, float32 [256, 256].
nlohmann::json Tiles(const HeadTensors& head, const std::string& folder, const std::string& prefix) {
  nlohmann::json all = nlohmann::json::array();
  for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
    const std::string by = reduction == TileReduction::kMax ? "max" : "mean";
    for (int32_t level = 0; level <= MaxLevel(head.num_rows, head.num_tokens); ++level) {
      const TilePtr tile = ComputeTile(head, {head.id, reduction, level, 0, 0}, 2, {});
      const std::string name = prefix + "-" + by + "-" + std::to_string(level) + ".tile";
      WriteArray(folder + "/" + name, tile->log2_p);
      all.push_back({{"by", by}, {"level", level}, {"name", name}});
    }
  }
  return all;
}

// What the CPU executor gives for one head and for its whole layer, with everything that the model sees kept and with
// what A-shape keeps with few sinks and a short window: NAME.o, float32 [rows, v_head_dim], NAME.lse, float32 [rows],
// and the kept ranges as Masks() writes them.
nlohmann::json Outputs(const data::TraceReader& trace, const HeadTensorsPtr& head, const std::string& folder,
                       const std::string& prefix) {
  nlohmann::json all = nlohmann::json::array();
  const MeasuredHeadsPtr layer = LoadLayer(trace, head->id);
  for (const char* method_name : {"dense", "a-shape"}) {
    const kernels::PrefillMethod* method = kernels::FindPrefillMethod(method_name);
    if (method == nullptr) throw std::runtime_error(std::string("no method ") + method_name);
    MaskPreview preview;
    const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head, 2, {});
    kernels::ParameterValues values(method->spec());
    if (method->spec().name == "a-shape") values.Parse(method->spec(), "n_sink=3,n_local=50");
    kernels::Status status = PreviewMask(*mass, *method, values, 2, {}, &preview);
    std::vector<float> o(static_cast<size_t>(head->num_rows * head->ValueDim())), lse(head->lse.size());
    kernels::AttentionOutput output{kernels::ContiguousTensor<void>(o.data(), 1, head->num_rows, head->ValueDim()),
                                    lse.data()};
    if (status.ok()) status = kernels::AttendCpu(head->Problem(), preview.index->View(), output, {});
    if (!status.ok()) throw std::runtime_error(status.message());
    const std::string name = prefix + "-" + method_name + "-output";
    WriteRanges(preview.index->View(), folder + "/" + name);
    WriteArray(folder + "/" + name + ".o", o);
    WriteArray(folder + "/" + name + ".lse", lse);
    all.push_back({{"method", method_name}, {"name", name}});
  }
  // The layer's problem has every head's sink; the dense index of one head is that of all.
  std::vector<float> o(layer->OutputSize());
  kernels::SparseIndex index;
  const kernels::PrefillMethod* dense = kernels::FindPrefillMethod("dense");
  kernels::AttentionProblem problem = layer->Problem();
  problem.window = layer->window;
  kernels::AttentionOutput output;
  output.o = kernels::ContiguousTensor<void>(o.data(), layer->num_qo_heads, layer->num_rows, layer->ValueDim());
  kernels::Status status = dense->Select(problem, kernels::ParameterValues(dense->spec()), {}, &index);
  if (status.ok()) status = kernels::AttendCpu(problem, index.View(), output, {});
  if (!status.ok()) throw std::runtime_error(status.message());
  const auto size = static_cast<std::ptrdiff_t>(layer->num_rows * layer->ValueDim());
  const auto begin = o.begin() + (head->id.head - layer->first_qo_head) * size;
  WriteArray(folder + "/" + prefix + "-layer.o", std::vector<float>(begin, begin + size));
  return all;
}

std::vector<HeadId> ParseHeads(const std::string& text) {
  std::vector<HeadId> heads;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    heads.push_back({std::stoi(item.substr(0, item.find(':'))), std::stoi(item.substr(item.find(':') + 1))});
  }
  return heads;
}

void DumpTrace(const data::TraceReader& trace, const std::vector<HeadId>& heads, const std::string& folder) {
  std::vector<HeadStatistics> statistics;
  nlohmann::json details = nlohmann::json::array();
  for (const HeadId id : heads) {
    const HeadTensorsPtr head = LoadHead(trace, id);
    statistics.push_back(ComputeStatistics(*head, {}));
    const std::string prefix = std::to_string(id.layer) + "-" + std::to_string(id.head);
    details.push_back({{"masks", Masks(head, folder, prefix)}, {"tiles", Tiles(*head, folder, prefix)}});
    if (head->first_token == 0) details.back()["outputs"] = Outputs(trace, head, folder, prefix);
  }
  WriteText(folder + "/statistics.json", StatisticsJson(statistics));
  WriteText(folder + "/details.json", details.dump());
}

int Main(const std::vector<std::string>& arguments) {
  const std::string folder = arguments.at(0);
  if (arguments.size() > 1) {
    const data::TraceReader trace(arguments.at(1));
    DumpTrace(trace, arguments.size() > 2 ? ParseHeads(arguments.at(2)) : RecordedHeads(trace), folder);
    return 0;
  }
  WriteTrace(folder + "/whole.h5", OracleLayout());
  WriteTrace(folder + "/differing.h5", DifferingLayout());
  const data::TraceReader whole(folder + "/whole.h5");
  // From the middle: the first rows of the windowed layer lack keys, the last have them all. And without two tokens, so
  // that two sinks are left and next to nothing lies outside.
  data::ExportTrace(whole, {.first_token = 250, .end_token = 840}, folder + "/cut.h5");
  data::ExportTrace(whole, {.first_token = 2}, folder + "/barely_cut.h5");
  const data::TraceReader differing(folder + "/differing.h5");
  data::ExportTrace(differing, {.first_token = 40, .end_token = 680}, folder + "/differing_cut.h5");
  for (const char* name : {"whole", "cut", "barely_cut", "differing", "differing_cut"}) {
    const std::string base = folder + "/" + name;
    std::filesystem::create_directory(base);
    const data::TraceReader trace(base + ".h5");
    DumpTrace(trace, RecordedHeads(trace), base);
  }
  return 0;
}

}  // namespace
}  // namespace headscope::analysis

int main(int argc, char** argv) {
  try {
    return headscope::analysis::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "analysis_oracle_dump: " << error.what() << "\n";
    return 1;
  }
}
