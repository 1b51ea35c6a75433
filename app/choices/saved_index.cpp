// SPDX-License-Identifier: Apache-2.0
#include "choices/saved_index.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "analysis/types/printable.h"
#include "base/error_with_help.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "data/untrusted_text.h"
#include "kernels/status.h"
#include "support/output_file.h"

namespace headscope::app {
namespace {

using kernels::SparseIndex;

[[noreturn]] void Refuse(const std::string& path, const std::string& problem) {
  throw ErrorWithHelp<BadInputError>({.file = path, .problem = problem, .remedy = "save the index again"},
                                     Help::kSaveIndex);
}

[[noreturn]] void RefuseLength(const std::string& path) {
  throw FailedError({.file = path,
                     .problem = "the index takes more than " + std::to_string(data::kMostTextBytes >> 20) +
                                " MiB as JSON, which is more than headscope reads",
                     .remedy = "name a file that ends in .h5, or save the index of fewer heads"});
}

}  // namespace

SparseIndex IndexOf(const std::string& path, const data::IndexFile& file) {
  SparseIndex index;
  index.batch = file.batch;
  index.num_qo_heads = file.num_qo_heads;
  index.seq_q = file.seq_q;
  index.seq_k = file.seq_k;
  index.first_position = file.first_position;
  index.tile_rows = file.tile_rows;
  index.rule = {static_cast<kernels::MaskKind>(file.mask_kind), file.window, file.num_sinks};
  index.run_begin = file.run_begin;
  index.run_count = file.run_count;
  index.column_begin = file.column_begin;
  index.column_count = file.column_count;
  index.columns = file.columns;
  for (size_t i = 0; i + 1 < file.runs.size(); i += 2) {
    index.runs.push_back({file.runs[i], std::bit_cast<uint32_t>(file.runs[i + 1])});
  }

  // Validate() reads num_lists entries of every list array, so their length is looked at before it.
  const bool tiled = index.tile_rows == 64 || index.tile_rows == 128;
  if (!tiled || index.batch < 1 || index.num_qo_heads < 1 || index.seq_q < 1) {
    Refuse(path, "batch, num_qo_heads and seq_q must be positive and tile_rows 64 or 128");
  }
  const int64_t num_tiles = (int64_t{index.seq_q} + index.tile_rows - 1) / index.tile_rows;
  const auto found = static_cast<int64_t>(index.run_begin.size());
  // Divisions: the product of hostile numbers may overflow.
  const int64_t heads = int64_t{index.batch} * index.num_qo_heads;
  if (found % num_tiles != 0 || found / num_tiles != heads) {
    Refuse(path, "/run_begin has " + std::to_string(found) + " entries, the shape has " + std::to_string(heads) +
                     " heads of " + std::to_string(num_tiles) + " tiles");
  }
  if (kernels::Status status = kernels::Validate(index.View()); !status.ok()) Refuse(path, status.message());
  return index;
}

void SetIndexShape(const SparseIndex& index, data::IndexFile* file) {
  file->seq_q = index.seq_q;
  file->seq_k = index.seq_k;
  file->first_position = index.first_position;
  file->tile_rows = index.tile_rows;
  file->mask_kind = static_cast<int32_t>(index.rule.kind);
  file->window = index.rule.window;
  file->num_sinks = index.rule.num_sinks;
}

void AppendIndexLists(const SparseIndex& index, data::IndexFile* file) {
  const auto runs = static_cast<int64_t>(file->runs.size() / 2), columns = static_cast<int64_t>(file->columns.size());
  for (const int64_t begin : index.run_begin) file->run_begin.push_back(runs + begin);
  for (const int64_t begin : index.column_begin) file->column_begin.push_back(columns + begin);
  file->run_count.insert(file->run_count.end(), index.run_count.begin(), index.run_count.end());
  file->column_count.insert(file->column_count.end(), index.column_count.begin(), index.column_count.end());
  for (const kernels::KeyRun& run : index.runs) {
    file->runs.push_back(run.start);
    file->runs.push_back(std::bit_cast<int32_t>(run.packed));
  }
  file->columns.insert(file->columns.end(), index.columns.begin(), index.columns.end());
}

void WriteIndex(const data::IndexFile& file, const std::string& path, bool force) {
  if (FindFileFormat(path) != FileFormat::kJson) {
    OutputFile saved(path, force);
    saved.Write([&](const std::string& temporary) { data::WriteIndexFile(temporary, file); });
    saved.Commit();
    return;
  }
  // A number and what separates it take two bytes at least, so that much is not made into JSON in vain.
  const size_t in_all = file.run_begin.size() + file.run_count.size() + file.column_begin.size() +
                        file.column_count.size() + file.columns.size() + file.runs.size() + file.heads.size();
  if (in_all > data::kMostTextBytes / 2) RefuseLength(path);
  using Json = nlohmann::ordered_json;
  Json json = {{"format", "headscope-index"},
               {"version", 2},
               {"method", file.method},
               {"recipe", file.recipe},
               {"num_qo_heads", file.num_qo_heads},
               {"num_kv_heads", file.num_kv_heads},
               {"head_dim", file.head_dim},
               {"seq_q", file.seq_q},
               {"seq_k", file.seq_k},
               {"first_position", file.first_position},
               {"tile_rows", file.tile_rows},
               {"mask_kind", file.mask_kind},
               {"window", file.window},
               {"num_sinks", file.num_sinks},
               {"run_begin", file.run_begin},
               {"run_count", file.run_count},
               {"column_begin", file.column_begin},
               {"column_count", file.column_count},
               {"columns", file.columns}};
  const auto pairs = [&json](const char* name, const std::vector<int32_t>& numbers) {
    json[name] = Json::array();
    for (size_t i = 0; i + 1 < numbers.size(); i += 2) json[name].push_back({numbers[i], numbers[i + 1]});
  };
  pairs("runs", file.runs);
  pairs("heads", file.heads);
  const std::string text = analysis::PrintableJson(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n";
  if (text.size() > data::kMostTextBytes) RefuseLength(path);
  WriteText(text, path, force);
}

}  // namespace headscope::app
