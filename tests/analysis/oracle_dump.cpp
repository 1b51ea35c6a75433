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

namespace headscope::analysis {
namespace {

constexpr int64_t kTokens = 900;
constexpr int32_t kWindow = 300;  // of the second layer's model
constexpr int32_t kQoHeads = 4, kKvHeads = 2, kHeadDim = 32;

// Keys with outliers, a sink and a slowly turning part, so that heads have sinks, windows and long tails.
void WriteTrace(const std::string& path) {
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
  layout.qo_heads = {0, 1, 2, 3};
  layout.kv_heads = {0, 1};
  layout.encoding = data::Encoding::kFloat32;
  layout.softmax_scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim));
  layout.window_per_layer = {0, kWindow};
  layout.max_tokens = kTokens;
  data::TraceWriter writer(path, layout, /*overwrite=*/true);
  writer.AppendTokens(std::vector<data::TokenRecord>(kTokens));
  std::vector<int32_t> positions(kTokens);
  for (int32_t i = 0; i < kTokens; ++i) positions[static_cast<size_t>(i)] = i;
  writer.AppendRowPositions(positions);
  std::mt19937 random(20);
  std::normal_distribution<float> normal;
  for (int32_t layer = 0; layer < 2; ++layer) {
    std::vector<float> q(kQoHeads * kTokens * kHeadDim), k(kKvHeads * kTokens * kHeadDim), v(k.size()),
        lse(kQoHeads * kTokens);
    for (float& value : k) value = normal(random);
    for (float& value : v) value = normal(random);
    for (int64_t head = 0; head < kQoHeads; ++head) {
      const float* keys = k.data() + head / 2 * kTokens * kHeadDim;
      for (int64_t row = 0; row < kTokens; ++row) {
        float* query = q.data() + (head * kTokens + row) * kHeadDim;
        for (int64_t i = 0; i < kHeadDim; ++i) {
          query[i] = 0.7f * normal(random) * (i == 3 ? 4.0f : 1.0f) + 0.3f * static_cast<float>(head) * keys[i] +
                     0.5f * keys[row / 2 * kHeadDim + i];
        }
        std::vector<double> scores;
        double largest = -1e300, sum = 0;
        for (int64_t column = layer == 1 ? std::max<int64_t>(0, row - kWindow + 1) : 0; column <= row; ++column) {
          double dot = 0;
          for (int64_t i = 0; i < kHeadDim; ++i)
            dot += static_cast<double>(query[i]) * static_cast<double>(keys[column * kHeadDim + i]);
          scores.push_back(dot * static_cast<double>(layout.softmax_scale));
          largest = std::max(largest, scores.back());
        }
        for (const double score : scores) sum += std::exp(score - largest);
        lse[static_cast<size_t>(head * kTokens + row)] = static_cast<float>(largest + std::log(sum));
      }
    }
    data::LayerBlock block;
    block.layer_slot = layer;
    block.num_tokens = kTokens;
    block.num_rows = kTokens;
    block.q = q.data();
    block.k = k.data();
    block.v = v.data();
    block.lse = lse.data();
    writer.Append(block);
  }
  writer.Finish();
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

// Kept ranges of every row and headscope's mass of them, for every prefill method: NAME.offsets, int64 [rows + 1], of
// each row's first range; NAME.ranges, int32 [ranges, 2]; NAME.mass, float32 [rows].
nlohmann::json Masks(const HeadTensorsPtr& head, const std::string& folder, const std::string& prefix) {
  nlohmann::json all = nlohmann::json::array();
  const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head, 2, nullptr);
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    MaskPreview preview;
    const kernels::Status status =
        PreviewMask(*mass, *method, kernels::ParameterValues(method->spec()), 2, nullptr, &preview);
    if (!status.ok()) throw std::runtime_error(status.message());
    std::vector<kernels::ColumnRange> ranges;
    std::vector<int64_t> offsets = {0};
    for (int32_t row = 0; row < head->num_rows; ++row) {
      kernels::AppendKeptRanges(preview.index->View(), 0, 0, row, &ranges);
      offsets.push_back(static_cast<int64_t>(ranges.size()));
    }
    const std::string name = prefix + "-" + method->spec().name;
    WriteArray(folder + "/" + name + ".ranges", ranges);
    WriteArray(folder + "/" + name + ".offsets", offsets);
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
      const TilePtr tile = ComputeTile(head, {head.id, reduction, level, 0, 0}, 2, nullptr);
      const std::string name = prefix + "-" + by + "-" + std::to_string(level) + ".tile";
      WriteArray(folder + "/" + name, tile->log2_p);
      all.push_back({{"by", by}, {"level", level}, {"name", name}});
    }
  }
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
  WriteTrace(folder + "/whole.h5");
  const data::TraceReader whole(folder + "/whole.h5");
  // From the middle: the first rows of the windowed layer lack keys, the last have them all. And without two tokens, so
  // that two sinks are left and next to nothing lies outside.
  data::ExportTrace(whole, {.first_token = 250, .end_token = 840}, folder + "/cut.h5");
  data::ExportTrace(whole, {.first_token = 2}, folder + "/barely_cut.h5");
  for (const char* name : {"whole", "cut", "barely_cut"}) {
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
