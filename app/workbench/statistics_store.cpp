// SPDX-License-Identifier: Apache-2.0
#include "statistics_store.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <tuple>

#include "analysis/types/head_statistic.h"
#include "analysis/types/row_statistic.h"
#include "base/device.h"
#include "data/shallow_json.h"

namespace headscope {

void to_json(nlohmann::json& json, const NamedDevice& device) {
  json = device.name;
}
void from_json(const nlohmann::json& json, NamedDevice& device) {
  device = DeviceOfName(json.get<std::string>());
}

}  // namespace headscope

namespace headscope::analysis {

// Found by nlohmann::json through their names; every number of a head is kept, so that nothing is computed twice.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeadId, layer, head)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TopKMass, k, mean)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TopKAgreement, r, k, mean)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SparsityAtCra, target, sparsity)
// A number that a head has not is NaN here and null there.
void to_json(nlohmann::json& json, const RowMean& mean) {
  json = {{"name", mean.name}, {"mean", mean.mean}};
}
void from_json(const nlohmann::json& json, RowMean& mean) {
  json.at("name").get_to(mean.name);
  mean.mean = json.at("mean").is_null() ? std::nan("") : json.at("mean").get<double>();
}
void to_json(nlohmann::json& json, const HeadNumber& number) {
  json = {{"name", number.name}, {"value", number.value}};
}
void from_json(const nlohmann::json& json, HeadNumber& number) {
  json.at("name").get_to(number.name);
  number.value = json.at("value").is_null() ? std::nan("") : json.at("value").get<double>();
}
#define HEADSCOPE_HEAD_FIELDS                                                                                 \
  id, kv_head, num_rows, num_tokens, device, note, row_means, numbers, entropy, max_probability, top_k_mass,  \
      agreement, sparsity, sink_mass, local_mass, vertical_mass, slash_mass, block_mass, retrieval_mass,      \
      retrieval_peak, outside_mass, mean_logit, local_logit, column_profile, diagonal_profile, logit_profile, \
      head_class, class_reason, class_confidence, class_alternative
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeadStatistics, HEADSCOPE_HEAD_FIELDS)

namespace {
// Compile only while the lists above have every field: one that they lack would come back from the file as 0.
[[maybe_unused]] void AllParts(HeadId& id, TopKMass& mass, TopKAgreement& agreement, SparsityAtCra& sparsity) {
  [[maybe_unused]] auto& [layer, head] = id;
  [[maybe_unused]] auto& [k, mean] = mass;
  [[maybe_unused]] auto& [r, of_k, mean_agreement] = agreement;
  [[maybe_unused]] auto& [target, share] = sparsity;
}
[[maybe_unused]] void AllNumbers(RowMean& row_mean, HeadNumber& number) {
  [[maybe_unused]] auto& [name, mean] = row_mean;
  [[maybe_unused]] auto& [number_name, value] = number;
}
[[maybe_unused]] auto AllFields(HeadStatistics& statistics) {
  auto& [HEADSCOPE_HEAD_FIELDS] = statistics;
  return std::tie(HEADSCOPE_HEAD_FIELDS);
}
}  // namespace
#undef HEADSCOPE_HEAD_FIELDS
#define HEADSCOPE_EVIDENCE_FIELDS far_mass, block_chance, line_chance, learned_sink_mass
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClassEvidence, HEADSCOPE_EVIDENCE_FIELDS)
namespace {
[[maybe_unused]] auto AllEvidence(ClassEvidence& evidence) {
  auto& [HEADSCOPE_EVIDENCE_FIELDS] = evidence;
  return std::tie(HEADSCOPE_EVIDENCE_FIELDS);
}
}  // namespace
#undef HEADSCOPE_EVIDENCE_FIELDS

}  // namespace headscope::analysis

namespace headscope::app {

void to_json(nlohmann::json& json, const KnownHead& head) {
  json = head.statistics;
  json["class_evidence"] = head.evidence;
}
void from_json(const nlohmann::json& json, KnownHead& head) {
  json.get_to(head.statistics);
  json.at("class_evidence").get_to(head.evidence);
}

namespace {

constexpr char kSchema[] = "headscope-statistics-cache-7";

// FNV-1a, 64 bits: a file name, not a proof.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

template <typename Statistic, typename Number>
bool HasEvery(const std::vector<const Statistic*>& known, const std::vector<Number>& kept) {
  return std::equal(
      known.begin(), known.end(), kept.begin(), kept.end(),
      [](const Statistic* statistic, const Number& number) { return statistic->info().name == number.name; });
}

// nlohmann::json makes an int of any number, and of one that is none of ints what the machine likes.
bool IsInt(const nlohmann::json& json) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned()) return json.get<uint64_t>() <= uint64_t{std::numeric_limits<int32_t>::max()};
  return json.get<int64_t>() >= std::numeric_limits<int32_t>::min();
}

// Every integer of a head's statistics. Throws nlohmann::json::exception where one is missing.
bool HasInts(const nlohmann::json& head) {
  const auto has = [](const nlohmann::json& json, std::initializer_list<const char*> names) {
    return std::ranges::all_of(names, [&](const char* name) { return IsInt(json.at(name)); });
  };
  const auto all_have = [&](const char* list, std::initializer_list<const char*> names) {
    return std::ranges::all_of(head.at(list), [&](const nlohmann::json& one) { return has(one, names); });
  };
  return has(head.at("id"), {"layer", "head"}) &&
         has(head, {"kv_head", "num_rows", "num_tokens", "head_class", "class_alternative"}) &&
         all_have("top_k_mass", {"k"}) && all_have("agreement", {"r", "k"});
}

// Any number may stand in the file.
bool IsClass(analysis::HeadClass one) {
  return analysis::IsHeadClass(static_cast<int>(one));
}

// False: kept by a program that knew other statistics.
bool HasEveryStatistic(const analysis::HeadStatistics& head) {
  return HasEvery(analysis::RowStatistics(), head.row_means) && HasEvery(analysis::WholeHeadStatistics(), head.numbers);
}

}  // namespace

StatisticsStore::StatisticsStore(const std::string& cache_dir, const std::string& trace_path) {
  if (cache_dir.empty()) return;
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(trace_path, error);
  if (error) return;
  const uintmax_t size = std::filesystem::file_size(canonical, error);
  if (error) return;
  const auto changed = std::filesystem::last_write_time(canonical, error);
  if (error) return;
  const uint64_t hash = Hash(canonical.string() + '\n' + std::to_string(size) + '\n' +
                             std::to_string(changed.time_since_epoch().count()));
  char name[48];
  std::snprintf(name, sizeof(name), "%016" PRIx64 ".statistics.json", hash);
  path_ = (std::filesystem::path(cache_dir) / name).string();
}

std::vector<KnownHead> StatisticsStore::Load() const {
  if (path_.empty()) return {};
  std::ifstream file(path_, std::ios::binary);
  if (!file) return {};
  try {
    std::ostringstream text;
    text << file.rdbuf();
    const std::optional<nlohmann::json> read = data::ParseShallowJson<nlohmann::json>(text.view());
    if (!read) return {};
    const nlohmann::json& json = *read;
    if (json.at("schema") != kSchema) return {};
    if (!std::ranges::all_of(json.at("heads"), &HasInts)) return {};
    auto heads = json.at("heads").get<std::vector<KnownHead>>();
    for (const auto& [head, evidence] : heads) {
      if (!HasEveryStatistic(head) || !IsClass(head.head_class) || !IsClass(head.class_alternative)) return {};
    }
    return heads;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

std::string StatisticsStore::Save(const std::vector<KnownHead>& heads) const {
  if (path_.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const std::string temporary = path_ + ".partial";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << nlohmann::json{{"schema", kSchema}, {"heads", heads}};
    file.flush();
    if (!file) {
      std::filesystem::remove(temporary, error);
      return "The statistics could not be saved in " + path_ + ": the folder is not writable or the disk is full.";
    }
  }
  std::filesystem::rename(temporary, path_, error);
  return error ? "The statistics could not be saved in " + path_ + ": " + error.message() + "." : std::string();
}

std::string DefaultResultsDir() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty() && !variable("HOME").empty()) cache = std::filesystem::path(variable("HOME")) / ".cache";
  return cache.empty() ? std::string() : (cache / "headscope" / "results").string();
}

}  // namespace headscope::app
