// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/quantise.h"
#include "analysis/statistics.h"
#include "analysis/sweep.h"
#include "analysis/types/number_text.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "base/stop.h"
#include "compare/output_error.h"
#include "data/origin_json.h"
#include "kernels/cpu_scores.h"
#include "statistics/row_block_pass.h"

namespace headscope::analysis {
namespace {

using kernels::Status;

// Largest magnitudes of a layer's tensors, plain and turned.
struct Largest {
  float q[2] = {0, 0}, k[2] = {0, 0}, v[2] = {0, 0};
};

float LargestMagnitude(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

void Raise(std::vector<float> values, int32_t dim, float (&largest)[2]) {
  largest[0] = std::max(largest[0], LargestMagnitude(values));
  TurnByHadamard(values, dim);
  largest[1] = std::max(largest[1], LargestMagnitude(values));
}

double RelativeError(const std::vector<float>& values, const std::vector<float>& reference) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = static_cast<double>(values[i]) - static_cast<double>(reference[i]);
    error += off * off;
    norm += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  return norm == 0 ? 0 : std::sqrt(error / norm);
}

// Attention of some rows of a head with other q, k and v: softmax over the keys that the row attends, and its sink.
std::vector<float> Outputs(const HeadTensors& head, const std::vector<int64_t>& rows, const std::vector<float>& q,
                           const std::vector<float>& k, const std::vector<float>& v, const std::stop_token& stop) {
  constexpr int32_t kColumnsAtOnce = 512;
  const kernels::PackedKeys keys(k.data(), kernels::DType::kFloat32, head.head_dim,
                                 static_cast<int32_t>(head.num_tokens), head.head_dim);
  const auto v_dim = static_cast<size_t>(head.ValueDim());
  std::vector<float> outputs;
  std::vector<float> scores, sums(v_dim);
  std::vector<double> output(v_dim);
  for (const int64_t row : rows) {
    StopIfAsked(stop);
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    const int64_t width = attended.end - attended.begin;
    scores.resize(static_cast<size_t>(width));
    for (int32_t begin = attended.begin; begin < attended.end; begin += kColumnsAtOnce) {
      const int32_t end = std::min(begin + kColumnsAtOnce, attended.end);
      kernels::ScoreBlock(q.data() + row * head.head_dim, head.head_dim, 1, keys, begin, end, head.scale, head.soft_cap,
                          scores.data() + (begin - attended.begin), end - begin);
    }
    float largest = kernels::MaxOf(scores.data(), width);
    if (head.sink) largest = std::max(largest, *head.sink);
    double sum = head.sink ? std::exp(static_cast<double>(*head.sink) - static_cast<double>(largest)) : 0;
    std::fill(output.begin(), output.end(), 0.0);
    for (int64_t begin = 0; begin < width; begin += kColumnsAtOnce) {  // fp32 sums of a block, float64 of blocks
      const int64_t end = std::min<int64_t>(begin + kColumnsAtOnce, width);
      sum += static_cast<double>(kernels::ExpInPlace(scores.data() + begin, end - begin, largest));
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t column = begin; column < end; ++column) {
        const float weight = scores[static_cast<size_t>(column)];
        const float* value = v.data() + (attended.begin + column) * static_cast<int64_t>(v_dim);
        for (size_t i = 0; i < v_dim; ++i) sums[i] += weight * value[i];
      }
      for (size_t i = 0; i < v_dim; ++i) output[i] += static_cast<double>(sums[i]);
    }
    for (const double value : output) outputs.push_back(static_cast<float>(value / sum));
  }
  return outputs;
}

std::vector<Quantisation> SettingsOf(const QuantisationRequest& request) {
  std::vector<Quantisation> settings;
  for (const NumberFormat format : request.formats) {
    const std::vector<ScaleGroup> groups =
        format == NumberFormat::kMxfp4 ? std::vector<ScaleGroup>{ScaleGroup::kBlock} : request.groups;
    for (const ScaleGroup group : groups) {
      for (const bool hadamard : request.hadamard) settings.push_back({format, group, hadamard});
    }
  }
  return settings;
}

// One tensor under one setting: its values, and what there is to say of them.
std::vector<float> RoundTensor(const std::vector<float>& values, const Quantisation& quantisation,
                               const float (&largest)[2], int32_t dim, const QuantisationRequest& request,
                               double* error, std::vector<float>* scales) {
  StopIfAsked(request.stop);
  std::vector<float> rounded = values;
  std::vector<float> all = RoundTo(quantisation, largest[quantisation.hadamard ? 1 : 0], dim, rounded);
  StopIfAsked(request.stop);
  *error = RelativeError(rounded, values);
  const bool many = quantisation.group == ScaleGroup::kToken || quantisation.group == ScaleGroup::kBlock;
  if (!many || request.all_scales) *scales = std::move(all);
  return rounded;
}

std::vector<QuantisedHead> QuantiseHead(const HeadTensors& head, const Largest& largest,
                                        const QuantisationRequest& request) {
  std::vector<int64_t> rows;
  for (const RowBlock& block : ChooseRows(head, StatisticsOptions{}.block_size, request.max_rows))
    rows.insert(rows.end(), block.rows.begin(), block.rows.end());
  StatisticsOptions options;
  options.max_rows = request.max_rows;
  options.agreement_r = {};
  options.num_threads = 1;
  options.stop = request.stop;
  const double sparsity = MetricValue(ComputeStatistics(head, options), QuotedSparsity());
  const std::vector<float> reference = Outputs(head, rows, head.q, head.k, head.v, request.stop);
  std::vector<QuantisedHead> results;
  for (const Quantisation& quantisation : SettingsOf(request)) {
    QuantisedHead result;
    result.head = head.id;
    result.quantisation = quantisation;
    result.num_rows = static_cast<int64_t>(rows.size());
    result.sparsity = sparsity;
    const std::vector<float> q = request.q ? RoundTensor(head.q, quantisation, largest.q, head.head_dim, request,
                                                         &result.q_error, &result.q_scales)
                                           : head.q;
    const std::vector<float> k = request.k ? RoundTensor(head.k, quantisation, largest.k, head.head_dim, request,
                                                         &result.k_error, &result.k_scales)
                                           : head.k;
    const std::vector<float> v = request.v ? RoundTensor(head.v, quantisation, largest.v, head.ValueDim(), request,
                                                         &result.v_error, &result.v_scales)
                                           : head.v;
    const std::vector<float> output = Outputs(head, rows, q, k, v, request.stop);
    const OutputError error = MeasureError(output.data(), reference.data(), result.num_rows, head.ValueDim());
    result.relative_error = error.relative;
    result.max_error = error.maximum;
    result.cosine = error.cosine;
    results.push_back(std::move(result));
  }
  return results;
}

Status RunSweep(size_t count, const QuantisationRequest& request, double from, double to,
                const std::function<void(size_t head)>& run) {
  SweepOptions sweep;
  sweep.num_threads = request.num_threads;
  sweep.most_at_once = std::numeric_limits<int32_t>::max();
  sweep.stop = request.stop;
  sweep.progress = [&](const SweepProgress& at) {
    if (request.progress) request.progress(from + (to - from) * at.share);
  };
  return SweepCells(SweepAxes{.num_heads = count}, sweep, [&](const SweepCell& cell) -> Status {
    run(cell.head);
    return {};
  });
}

void CheckDone(const Status& status, const data::TraceReader& trace) {
  CheckStatus(status, trace.path());
}

// Of every layer that one of `heads` is of, over all its recorded heads.
std::map<int32_t, Largest> LargestOfLayers(const data::TraceReader& trace, const std::vector<HeadId>& heads,
                                           const QuantisationRequest& request) {
  std::map<int32_t, Largest> largest;
  if (std::find(request.groups.begin(), request.groups.end(), ScaleGroup::kTensor) == request.groups.end())
    return largest;
  for (const HeadId& head : heads) largest[head.layer] = {};
  std::vector<HeadId> all;
  for (const HeadId& head : RecordedHeads(trace)) {
    if (largest.contains(head.layer)) all.push_back(head);
  }
  std::mutex mutex;
  CheckDone(RunSweep(all.size(), request, 0, 0.1,
                     [&](size_t at) {
                       const HeadTensorsPtr head = LoadHead(trace, all[at]);
                       Largest of_head;
                       Raise(head->q, head->head_dim, of_head.q);
                       StopIfAsked(request.stop);
                       Raise(head->k, head->head_dim, of_head.k);
                       StopIfAsked(request.stop);
                       Raise(head->v, head->ValueDim(), of_head.v);
                       const std::lock_guard lock(mutex);
                       Largest& of_layer = largest[all[at].layer];
                       for (const int turned : {0, 1}) {
                         of_layer.q[turned] = std::max(of_layer.q[turned], of_head.q[turned]);
                         of_layer.k[turned] = std::max(of_layer.k[turned], of_head.k[turned]);
                         of_layer.v[turned] = std::max(of_layer.v[turned], of_head.v[turned]);
                       }
                     }),
            trace);
  return largest;
}

// A line of its own. By themselves: every token's scales in a tree of JSON values, as doubles, took ten times the room
// of what is written.
void AppendScales(const char* name, const std::vector<float>& scales, std::string* json) {
  if (scales.empty()) return;
  *json += std::string(",\n   \"") + name + "\":[";
  std::array<char, 32> text{};
  for (const float scale : scales) {
    const auto end = std::to_chars(text.data(), text.data() + text.size(), scale).ptr;
    if (std::isfinite(scale)) {
      json->append(text.data(), end);
    } else {
      json->append("null");  // JSON has no other word for it
    }
    json->push_back(',');
  }
  json->back() = ']';
}

}  // namespace

std::vector<QuantisedHead> QuantiseHeads(const data::TraceReader& trace, const std::vector<HeadId>& heads,
                                         const QuantisationRequest& request) {
  const std::map<int32_t, Largest> largest = LargestOfLayers(trace, heads, request);
  std::vector<std::vector<QuantisedHead>> of_head(heads.size());
  CheckDone(RunSweep(heads.size(), request, 0.1, 1,
                     [&](size_t at) {
                       const auto of_layer = largest.find(heads[at].layer);
                       of_head[at] = QuantiseHead(*LoadHead(trace, heads[at]),
                                                  of_layer == largest.end() ? Largest{} : of_layer->second, request);
                     }),
            trace);
  std::vector<QuantisedHead> results;
  for (std::vector<QuantisedHead>& some : of_head) std::move(some.begin(), some.end(), std::back_inserter(results));
  return results;
}

std::string QuantisationJson(const std::vector<QuantisedHead>& results, const OriginTexts& origin) {
  std::string json = "{\n \"schema\": \"headscope-quantisation-1\",";
  if (!origin.empty()) {
    json += "\n \"origin\": " +
            data::OriginJson(origin).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + ",";
  }
  json += "\n \"results\": [";
  bool first = true;
  for (const QuantisedHead& result : results) {
    nlohmann::ordered_json entry = {{"layer", result.head.layer},
                                    {"head", result.head.head},
                                    {"format", NameOf(result.quantisation.format)},
                                    {"scale", NameOf(result.quantisation.group)},
                                    {"hadamard", result.quantisation.hadamard},
                                    {"num_rows", result.num_rows},
                                    {"relative_error", result.relative_error},
                                    {"max_error", result.max_error},
                                    {"cosine", result.cosine},
                                    {"q_error", result.q_error},
                                    {"k_error", result.k_error},
                                    {"v_error", result.v_error},
                                    {QuotedSparsity(), result.sparsity}};
    json += (std::exchange(first, false) ? "\n  " : ",\n  ") + entry.dump();
    json.pop_back();  // its brace
    AppendScales("q_scales", result.q_scales, &json);
    AppendScales("k_scales", result.k_scales, &json);
    AppendScales("v_scales", result.v_scales, &json);
    json += "}";
  }
  return json + "\n ]\n}\n";
}

std::string QuantisationCsv(const std::vector<QuantisedHead>& results, const CsvOrigin& origin) {
  std::string csv =
      "layer,head,format,scale,hadamard,num_rows,relative_error,max_error,cosine,q_error,k_error,v_error," +
      QuotedSparsity() + origin.names + "\n";
  for (const QuantisedHead& result : results) {
    csv += std::to_string(result.head.layer) + "," + std::to_string(result.head.head) + "," +
           NameOf(result.quantisation.format) + "," + NameOf(result.quantisation.group) + "," +
           (result.quantisation.hadamard ? "1" : "0") + "," + std::to_string(result.num_rows);
    for (const double value : {result.relative_error, result.max_error, result.cosine, result.q_error, result.k_error,
                               result.v_error, result.sparsity})
      csv += "," + ShortestNumber(value);
    csv += origin.cells + "\n";
  }
  return csv;
}

}  // namespace headscope::analysis
