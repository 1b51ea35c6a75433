// Results as JSON and CSV. Field names are part of the schemas; a change of meaning raises the schema's number.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "analysis/report.h"

namespace headscope::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const HeadStatistics& statistics) {
  Json json;
  json["layer"] = statistics.id.layer;
  json["head"] = statistics.id.head;
  json["kv_head"] = statistics.kv_head;
  json["class"] = HeadClassName(statistics.head_class);
  json["class_reason"] = statistics.class_reason;
  json["num_rows"] = statistics.num_rows;
  json["num_tokens"] = statistics.num_tokens;
  json["kurtosis"] = statistics.kurtosis;
  json["entropy_nats"] = statistics.entropy;
  json["max_probability"] = statistics.max_probability;
  json["sink_mass"] = statistics.sink_mass;
  json["local_mass"] = statistics.local_mass;
  json["vertical_mass"] = statistics.vertical_mass;
  json["slash_mass"] = statistics.slash_mass;
  json["block_mass"] = statistics.block_mass;
  json["retrieval_mass"] = statistics.retrieval_mass;
  json["retrieval_peak"] = statistics.retrieval_peak;
  json["top_k_mass"] = Json::array();
  for (const TopKMass& entry : statistics.top_k_mass)
    json["top_k_mass"].push_back({{"k", entry.k}, {"mean", entry.mean}});
  json["top_k_agreement"] = Json::array();
  for (const TopKAgreement& entry : statistics.agreement) {
    json["top_k_agreement"].push_back({{"r", entry.r}, {"k", entry.k}, {"mean", entry.mean}});
  }
  json["sparsity_at_cra"] = Json::array();
  for (const SparsityAtCra& entry : statistics.sparsity) {
    json["sparsity_at_cra"].push_back({{"target", entry.target}, {"sparsity", entry.sparsity}});
  }
  json["column_profile"] = statistics.column_profile;
  json["diagonal_profile"] = statistics.diagonal_profile;
  return json;
}

Json ToJson(const Timing& timing) {
  return {{"median_ms", timing.median_ms}, {"mad_ms", timing.mad_ms}, {"repeats", timing.repeats}};
}

Json ToJson(const MethodResult& result) {
  Json json;
  json["layer"] = result.head.layer;
  json["head"] = result.head.head;
  json["method"] = result.method;
  json["parameters"] = result.parameters;
  json["phase"] = result.phase;
  json["device"] = result.device;
  json["kept_fraction"] = result.kept_fraction;
  json["cra_min"] = result.cra_min;
  json["cra_mean"] = result.cra_mean;
  json["select"] = ToJson(result.select);
  json["attend"] = ToJson(result.attend);
  json["dense_attend"] = ToJson(result.dense_attend);
  json["speedup"] = result.speedup;
  json["relative_error"] = result.relative_error;
  json["max_error"] = result.max_error;
  json["cosine"] = result.cosine;
  json["kernel_error"] = result.kernel_error;
  return json;
}

template <typename Entry>
std::string Document(const char* schema, const char* list, const std::vector<Entry>& entries) {
  Json json;
  json["schema"] = schema;
  json[list] = Json::array();
  for (const Entry& entry : entries) json[list].push_back(ToJson(entry));
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) quoted.append(character == '"' ? 2 : 1, character);
  return quoted + "\"";
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

std::string StatisticsJson(const std::vector<HeadStatistics>& statistics) {
  return Document("headscope-statistics-1", "heads", statistics);
}

std::string ComparisonJson(const std::vector<MethodResult>& results) {
  return Document("headscope-comparison-1", "results", results);
}

std::string StatisticsCsv(const std::vector<HeadStatistics>& statistics) {
  std::string csv = "layer,head,kv_head,class,num_rows,num_tokens";
  for (const MetricInfo& metric : Metrics()) csv += "," + metric.name;
  csv += ",class_reason\n";
  for (const HeadStatistics& head : statistics) {
    csv += std::to_string(head.id.layer) + "," + std::to_string(head.id.head) + "," + std::to_string(head.kv_head) +
           "," + HeadClassName(head.head_class) + "," + std::to_string(head.num_rows) + "," +
           std::to_string(head.num_tokens);
    for (const MetricInfo& metric : Metrics()) csv += "," + Number(MetricValue(head, metric.name));
    csv += "," + Quoted(head.class_reason) + "\n";
  }
  return csv;
}

std::string ComparisonCsv(const std::vector<MethodResult>& results) {
  std::string csv =
      "layer,head,method,parameters,phase,device,kept_fraction,cra_min,cra_mean,select_ms,select_mad_ms,attend_ms,"
      "attend_mad_ms,"
      "dense_attend_ms,dense_attend_mad_ms,repeats,speedup,relative_error,max_error,cosine,kernel_error\n";
  for (const MethodResult& result : results) {
    csv += std::to_string(result.head.layer) + "," + std::to_string(result.head.head) + "," + result.method + "," +
           Quoted(result.parameters) + "," + result.phase + "," + Quoted(result.device);
    for (const double value :
         {result.kept_fraction, result.cra_min, result.cra_mean, result.select.median_ms, result.select.mad_ms,
          result.attend.median_ms, result.attend.mad_ms, result.dense_attend.median_ms, result.dense_attend.mad_ms}) {
      csv += "," + Number(value);
    }
    csv += "," + std::to_string(result.attend.repeats);
    for (const double value :
         {result.speedup, result.relative_error, result.max_error, result.cosine, result.kernel_error}) {
      csv += "," + Number(value);
    }
    csv += "\n";
  }
  return csv;
}

}  // namespace headscope::analysis
