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
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "oracle_traces.h"

namespace headscope::analysis {
namespace {

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
  testing::WriteOracleTrace(folder + "/whole.h5");
  testing::WriteDifferingTrace(folder + "/differing.h5");
  const data::TraceReader whole(folder + "/whole.h5");
  // From the middle: the first rows of the windowed layer lack keys, the last have them all. And without two tokens, so
  // that two sinks are left and next to nothing lies outside.
  data::ExportTrace(whole, {.first_token = 250, .end_token = 840}, {}, folder + "/cut.h5");
  data::ExportTrace(whole, {.first_token = 2}, {}, folder + "/barely_cut.h5");
  const data::TraceReader differing(folder + "/differing.h5");
  data::ExportTrace(differing, {.first_token = 40, .end_token = 680}, {}, folder + "/differing_cut.h5");
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
