// SPDX-License-Identifier: Apache-2.0
#include "data/trace_export.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/errors.h"
#include "base/number_list.h"
#include "base/stop.h"
#include "data/model_json.h"
#include "data/trace_files_writer.h"
#include "trace/trace_format.h"
#include "trace/trace_tensors.h"
#include "trace/value_encoding.h"

namespace headscope::data {
namespace {

constexpr int64_t kItemsPerStep = 1024;  // tokens or rows held in memory at a time

// A selection in terms of the trace's slots, and the layout of what is cut out.
struct Cut {
  TraceLayout layout;
  std::vector<int32_t> layer_slots;
  struct Heads {
    std::vector<int32_t> qo_slots, kv_slots;
  };
  std::vector<Heads> heads;            // of each of the layers
  int64_t begin = 0, end = 0;          // tokens
  int64_t row_begin = 0, row_end = 0;  // recorded query rows

  // Slots, in the trace, of the heads of a tensor in layer `layer` of the cut.
  std::vector<int32_t> SlotsOf(const TensorSpec& spec, size_t layer) const {
    if (spec.heads == TensorSpec::Heads::kQo) return heads[layer].qo_slots;
    if (spec.heads == TensorSpec::Heads::kKv) return heads[layer].kv_slots;
    std::vector<int32_t> all(static_cast<size_t>(NumHeads(spec, layout.facts[layer])));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
};

std::vector<int32_t> Slots(const std::vector<int32_t>& held, const std::vector<int32_t>& wanted,
                           const std::string& field, const std::string& path) {
  const auto slot_of = [&](int32_t number) {
    const auto found = std::lower_bound(held.begin(), held.end(), number);
    if (found == held.end() || *found != number) {
      throw UsageError(
          {.file = path,
           .field = field + "s",
           .value = NumberListText(wanted),
           .problem = "the trace holds no " + field + " " + std::to_string(number) + ", only " + NumberListText(held),
           .remedy = "choose one of those"});
    }
    return static_cast<int32_t>(found - held.begin());
  };
  std::vector<int32_t> slots(wanted.size());
  std::transform(wanted.begin(), wanted.end(), slots.begin(), slot_of);
  return slots;
}

std::vector<int32_t> SortedOrAll(std::vector<int32_t> wanted, const std::vector<int32_t>& all) {
  if (wanted.empty()) {
    return all;
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  return wanted;
}

// Recorded layers that have any of the heads; all of them when it is none, or when no layer has one.
std::vector<int32_t> LayersWith(const TraceReader& trace, const std::vector<int32_t>& heads) {
  std::vector<int32_t> layers;
  for (const int32_t layer : trace.layout().layers) {
    const int32_t slot = trace.LayerSlot(layer);
    if (std::any_of(heads.begin(), heads.end(), [&](int32_t head) { return trace.QoHeadSlot(slot, head) >= 0; }))
      layers.push_back(layer);
  }
  return layers.empty() ? trace.layout().layers : layers;
}

// The chosen heads of every chosen layer, with the KV heads that they read. A head must be in some layer of the trace,
// and a layer must hold some head.
void CutHeads(const TraceReader& trace, const ExportSelection& selection, Cut* cut) {
  const std::vector<int32_t> wanted = SortedOrAll(selection.qo_heads, {});
  std::vector<int32_t> held;
  cut->layout.facts.clear();
  for (const int32_t slot : cut->layer_slots) {
    LayerFacts facts = trace.layer(slot);
    held.insert(held.end(), facts.qo_heads.begin(), facts.qo_heads.end());
    if (!wanted.empty()) {
      std::vector<int32_t> chosen;
      std::set_intersection(wanted.begin(), wanted.end(), facts.qo_heads.begin(), facts.qo_heads.end(),
                            std::back_inserter(chosen));
      facts.qo_heads = chosen;
    }
    facts.kv_heads.clear();
    for (const int32_t head : facts.qo_heads) facts.kv_heads.push_back(head / facts.GroupSize());
    facts.kv_heads = SortedOrAll(facts.kv_heads, {});
    cut->layout.facts.push_back(std::move(facts));
  }
  held = SortedOrAll(held, {});
  Slots(held, wanted, "head", trace.path());
  for (size_t layer = 0; layer < cut->layer_slots.size(); ++layer) {
    const LayerFacts &whole = trace.layer(cut->layer_slots[layer]), &facts = cut->layout.facts[layer];
    if (facts.qo_heads.empty()) {
      throw UsageError({.file = trace.path(),
                        .problem = "layer " + std::to_string(cut->layout.layers[layer]) +
                                   " holds none of the chosen heads: leave it out"});
    }
    cut->heads.push_back({Slots(whole.qo_heads, facts.qo_heads, "head", trace.path()),
                          Slots(whole.kv_heads, facts.kv_heads, "KV head", trace.path())});
  }
}

Cut MakeCut(const TraceReader& trace, const ExportSelection& selection) {
  if (trace.num_tokens() == 0) {
    throw BadInputError(
        {.file = trace.path(),
         .problem = "the trace holds no token, so there is nothing to export: its capture ended before the first",
         .remedy = "capture it again"});
  }
  Cut cut;
  cut.layout = trace.layout();
  cut.begin = selection.first_token;
  cut.end = selection.end_token < 0 ? trace.num_tokens() : selection.end_token;
  if (cut.begin < 0 || cut.begin >= cut.end || cut.end > trace.num_tokens()) {
    throw UsageError({.file = trace.path(),
                      .problem = "tokens " + std::to_string(cut.begin) + ":" + std::to_string(cut.end) +
                                 " are not in the trace: it holds 0:" + std::to_string(trace.num_tokens())});
  }
  const TraceLayout& whole = trace.layout();
  cut.layout.layers = SortedOrAll(selection.layers, LayersWith(trace, selection.qo_heads));
  cut.layer_slots = Slots(whole.layers, cut.layout.layers, "layer", trace.path());
  CutHeads(trace, selection, &cut);
  if ((cut.begin > 0 || cut.end < trace.num_tokens()) &&
      std::ranges::any_of(cut.layout.facts, &LayerFacts::bidirectional)) {
    throw UsageError({.file = trace.path(),
                      .problem =
                          "the rows of an encoder's layer attend to later tokens as well, and a part of the tokens "
                          "would cut those off: export all of them, or other layers"});
  }
  cut.layout.first_token = whole.first_token + cut.begin;
  cut.layout.max_tokens = cut.end - cut.begin;
  const std::vector<int32_t>& rows = trace.row_positions();
  cut.row_begin = std::lower_bound(rows.begin(), rows.end(), cut.begin) - rows.begin();
  cut.row_end = std::lower_bound(rows.begin(), rows.end(), cut.end) - rows.begin();
  // A score is of the first generated tokens: a cut without all of them has none.
  const std::vector<TokenRecord>& tokens = trace.tokens();
  const int64_t answer = std::find_if(tokens.begin(), tokens.end(),
                                      [](const TokenRecord& token) { return token.phase == TokenPhase::kDecode; }) -
                         tokens.begin();
  if (answer < cut.begin || answer + whole.answer_tokens > cut.end) {
    cut.layout.answer_tokens = 0;
    cut.layout.answer_score = std::numeric_limits<float>::quiet_NaN();
  }
  return cut;
}

// Reports progress in vectors done, `passes` times each, and looks whether to go on.
class Meter {
 public:
  Meter(const Cut& cut, const ExportProgress& progress, const std::stop_token& stop, int passes = 1)
      : progress_(progress), stop_(stop) {
    for (const Cut::Heads& heads : cut.heads) {
      total_ += std::ssize(heads.qo_slots) * (cut.row_end - cut.row_begin) +
                2 * std::ssize(heads.kv_slots) * (cut.end - cut.begin);
    }
    total_ *= passes;
  }
  void Advance(int64_t vectors) {  // throws CancelledError
    done_ += vectors;
    if (progress_) progress_(static_cast<double>(done_) / static_cast<double>(std::max<int64_t>(1, total_)));
    StopIfAsked(stop_);
  }

 private:
  const ExportProgress& progress_;
  const std::stop_token& stop_;
  int64_t total_ = 0, done_ = 0;
};

// [heads, items, components] of one layer, as TraceWriter::Append takes it.
template <typename ReadOne>
std::vector<unsigned char> Gather(const std::vector<int32_t>& slots, int64_t items, int64_t vector_bytes,
                                  ReadOne read) {
  const auto head_bytes = static_cast<size_t>(items * vector_bytes);
  std::vector<unsigned char> values(slots.size() * head_bytes);
  for (size_t i = 0; i < slots.size(); ++i) {
    read(slots[i], values.data() + i * head_bytes);
  }
  return values;
}

// Items [first, last) of one head as the cut stores them.
std::vector<unsigned char> Converted(const TraceReader& trace, const Cut& cut, const TensorSpec& spec, size_t layer,
                                     int32_t head, int64_t first, int64_t last) {
  const int32_t slot = cut.layer_slots[layer];
  const ElementType from = trace.layout().encoding, to = cut.layout.encoding;
  const int64_t numbers = (last - first) * NumComponents(spec, cut.layout.facts[layer]);
  std::vector<unsigned char> values(static_cast<size_t>(numbers * ComponentBytes(spec, from)));
  trace.Read(spec.tensor, slot, head, first, last, values.data());
  if (spec.type != TensorSpec::Type::kEncoding || from == to) return values;
  std::vector<float> floats(static_cast<size_t>(numbers));
  DecodeToFloat(values.data(), from, numbers, floats.data());
  values.resize(static_cast<size_t>(numbers * ComponentBytes(spec, to)));
  if (const int64_t place = EncodeFloats(floats.data(), numbers, to, values.data()); place >= 0) {
    throw FailedError({.file = trace.path(),
                       .field = spec.name,
                       .problem = "layer " + std::to_string(cut.layout.layers[layer]) + " holds " +
                                  std::to_string(floats[static_cast<size_t>(place)]) + ", which is out of range for " +
                                  EncodingName(to),
                       .remedy = "choose bf16 or fp32, or leave that layer out"});
  }
  return values;
}

void WriteCut(const TraceReader& trace, const Cut& cut, TraceFilesWriter& writer, Meter& meter) {
  const std::vector<int32_t>& rows = trace.row_positions();
  int64_t row = cut.row_begin;
  for (int64_t begin = cut.begin; begin < cut.end; begin += kItemsPerStep) {
    const int64_t end = std::min(begin + kItemsPerStep, cut.end);
    const int64_t next_row = std::lower_bound(rows.begin() + row, rows.begin() + cut.row_end, end) - rows.begin();
    writer.AppendTokens(
        std::span(trace.tokens()).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    std::vector<int32_t> positions;
    for (int64_t i = row; i < next_row; ++i) {
      positions.push_back(rows[static_cast<size_t>(i)] - static_cast<int32_t>(cut.begin));
    }
    writer.AppendRowPositions(positions);
    for (size_t layer = 0; layer < cut.layer_slots.size(); ++layer) {
      LayerBlock block{static_cast<int32_t>(layer), begin - cut.begin, end - begin, row - cut.row_begin,
                       next_row - row};
      std::array<std::vector<unsigned char>, kNumTraceTensors> values;
      for (const TensorSpec& spec : kTensorSpecs) {
        if (!Stores(cut.layout, layer, spec.tensor)) continue;
        const int64_t first = spec.of_rows ? row : begin, last = spec.of_rows ? next_row : end;
        const int64_t vector_bytes =
            NumComponents(spec, cut.layout.facts[layer]) * ComponentBytes(spec, cut.layout.encoding);
        auto& gathered = values[static_cast<size_t>(spec.tensor)];
        gathered = Gather(cut.SlotsOf(spec, layer), last - first, vector_bytes, [&](int32_t head, unsigned char* out) {
          std::ranges::copy(Converted(trace, cut, spec, layer, head, first, last), out);
        });
        block.Set(spec.tensor, gathered.data());
      }
      writer.Append(block);
      meter.Advance(std::ssize(cut.heads[layer].qo_slots) * (next_row - row) +
                    2 * std::ssize(cut.heads[layer].kv_slots) * (end - begin));
    }
    row = next_row;
  }
  writer.Finish();
}

std::unique_ptr<const TraceReader> OpenWritten(const std::string& path, TraceStorage storage) {
  try {
    return std::make_unique<const TraceReader>(path);
  } catch (const BadInputError&) {
    if (storage != TraceStorage::kCompressed) throw;
  }
  throw FailedError(
      {.file = path,
       .problem = "holds more than 1 GiB in less than a sixteenth of that, which headscope refuses to read",
       .remedy = "export it without compression"});
}

// What was written, read again by a reader of its own: everything that the trace holds of the cut, number for number.
void VerifyCut(const TraceReader& trace, const Cut& cut, const std::string& path, TraceStorage storage, Meter& meter) {
  const std::unique_ptr<const TraceReader> opened = OpenWritten(path, storage);
  const TraceReader& written = *opened;
  const auto require = [&](bool same, const std::string& field) {
    if (same) return;
    throw FailedError({.file = path,
                       .field = field,
                       .problem = "does not read back as it was written",
                       .remedy = "check the disk and the memory, and export again"});
  };
  const TraceLayout &found = written.layout(), &wanted = cut.layout;
  require(written.complete(), "complete");
  require(found.layers == wanted.layers && found.facts == wanted.facts, "layers");
  require(found.encoding == wanted.encoding && found.first_token == wanted.first_token &&
              found.capture_point == wanted.capture_point && found.attention == wanted.attention &&
              found.row_selection == wanted.row_selection,
          "attention");
  require(found.model.config_json == wanted.model.config_json && found.model.name == wanted.model.name &&
              found.model.model_type == wanted.model.model_type &&
              found.model.weights_sha256 == wanted.model.weights_sha256 &&
              found.model.tokenizer_sha256 == wanted.model.tokenizer_sha256 &&
              found.model.layer_kinds == wanted.model.layer_kinds,
          "model");
  require(found.prompt_source == wanted.prompt_source && found.task_answer == wanted.task_answer &&
              found.answer_tokens == wanted.answer_tokens,
          "tokens");
  const auto tokens =
      std::span(trace.tokens()).subspan(static_cast<size_t>(cut.begin), static_cast<size_t>(cut.end - cut.begin));
  require(std::ranges::equal(written.tokens(), tokens), "tokens");
  const auto rows = std::span(trace.row_positions())
                        .subspan(static_cast<size_t>(cut.row_begin), static_cast<size_t>(cut.row_end - cut.row_begin));
  require(std::ranges::equal(written.row_positions(), rows, {}, [&](int32_t row) { return row + cut.begin; }),
          "q_rows");
  std::vector<unsigned char> read;
  for (size_t layer = 0; layer < cut.layer_slots.size(); ++layer) {
    for (const TensorSpec& spec : kTensorSpecs) {
      if (!Stores(wanted, layer, spec.tensor)) continue;
      const std::vector<int32_t> slots = cut.SlotsOf(spec, layer);
      const int64_t begin = spec.of_rows ? cut.row_begin : cut.begin, end = spec.of_rows ? cut.row_end : cut.end;
      for (size_t head = 0; head < slots.size(); ++head) {
        for (int64_t first = begin; first < end; first += kItemsPerStep) {
          const int64_t last = std::min(first + kItemsPerStep, end);
          const std::vector<unsigned char> expected = Converted(trace, cut, spec, layer, slots[head], first, last);
          read.resize(expected.size());
          written.Read(spec.tensor, static_cast<int32_t>(layer), static_cast<int32_t>(head), first - begin,
                       last - begin, read.data());
          require(read == expected, spec.name);
        }
      }
    }
    meter.Advance(std::ssize(cut.heads[layer].qo_slots) * (cut.row_end - cut.row_begin) +
                  2 * std::ssize(cut.heads[layer].kv_slots) * (cut.end - cut.begin));
  }
}

// A text file that is new, buffered, and complains about every failed write.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wx"), &std::fclose) {
    if (file_ == nullptr && errno == EEXIST) {
      throw FailedError({.file = path, .problem = "exists already", .remedy = "choose another name"});
    }
    if (file_ == nullptr) {
      throw FailedError({.file = path,
                         .problem = std::string("cannot be created (") + std::strerror(errno) + ")",
                         .remedy = "choose a new name in a writable folder"});
    }
  }
  void Write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) {
      Fail();
    }
  }
  void Close() {
    if (std::fclose(file_.release()) != 0) {
      Fail();
    }
  }

 private:
  [[noreturn]] void Fail() const {
    throw FailedError(
        {.file = path_, .problem = "writing failed", .remedy = "free some disk space or choose another folder"});
  }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// The shortest text that reads back as the same number. JSON has no infinities and no NaN: null stands for them there.
void AppendNumber(std::string& text, float value, bool json) {
  if (json && value - value != 0) {
    text += "null";
    return;
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

struct Vectors {
  char tensor = 'q';
  int32_t layer = 0, head = 0;
  size_t dim = 0;
  std::vector<int64_t> tokens;    // positions in the cut
  std::vector<float> lse;         // q only
  std::vector<int64_t> lse_keys;  // q only
  std::vector<float> values;      // [tokens, dim]
};

// Calls `use(vectors, first, last)` for every tensor, layer and head in steps of a bounded size; first and last tell
// where a head begins and ends.
template <typename Use>
void ForEachStep(const TraceReader& trace, const Cut& cut, Meter& meter, Use use) {
  const ElementType encoding = cut.layout.encoding;
  for (size_t layer = 0; layer < cut.layer_slots.size(); ++layer) {
    const int32_t layer_slot = cut.layer_slots[layer];
    for (const char tensor : {'q', 'k', 'v'}) {
      const bool query = tensor == 'q';
      const LayerFacts& facts = cut.layout.facts[layer];
      const int64_t dim = tensor == 'v' ? facts.v_head_dim : facts.head_dim;
      const auto& slots = query ? cut.heads[layer].qo_slots : cut.heads[layer].kv_slots;
      const auto& heads = query ? facts.qo_heads : facts.kv_heads;
      const int64_t begin = query ? cut.row_begin : cut.begin, end = query ? cut.row_end : cut.end;
      for (size_t head = 0; head < slots.size(); ++head) {
        for (int64_t at = begin; at == begin || at < end; at += kItemsPerStep) {
          const int64_t next = std::min(at + kItemsPerStep, end), count = next - at;
          Vectors step;
          step.tensor = tensor;
          step.layer = cut.layout.layers[layer];
          step.head = heads[head];
          step.dim = static_cast<size_t>(dim);
          step.values.resize(static_cast<size_t>(count * dim));
          std::vector<unsigned char> raw(static_cast<size_t>(count * dim * SizeOf(encoding)));
          if (query) {
            trace.ReadQ(layer_slot, slots[head], at, next, raw.data());
            step.lse.resize(static_cast<size_t>(count));
            trace.ReadLse(layer_slot, slots[head], at, next, step.lse.data());
          } else if (tensor == 'k') {
            trace.ReadK(layer_slot, slots[head], at, next, raw.data());
          } else {
            trace.ReadV(layer_slot, slots[head], at, next, raw.data());
          }
          DecodeToFloat(raw.data(), encoding, count * dim, step.values.data());
          for (int64_t i = at; i < next; ++i) {
            step.tokens.push_back((query ? trace.row_positions()[static_cast<size_t>(i)] : i) - cut.begin);
            if (query) step.lse_keys.push_back(LseKeys(cut.layout, layer, step.tokens.back()));
          }
          use(step, at == begin, next >= end);
          meter.Advance(count);
        }
      }
    }
  }
}

// Runs write() on the files `paths`, which the caller has just made; whatever keeps it from finishing, no half file
// stays behind. A file that somebody else made in the meantime is not the caller's to remove: hence they are made
// before.
template <typename Write>
void WholeOrNothing(const std::vector<std::string>& paths, Write write) {
  try {
    write();
  } catch (...) {
    std::error_code ignored;
    for (const std::string& path : paths) std::filesystem::remove(path, ignored);
    throw;
  }
}

// What all layers have; null where they differ.
nlohmann::ordered_json SharedScale(const TraceLayout& layout) {
  const float first = layout.facts.front().softmax_scale;
  const bool shared = std::all_of(layout.facts.begin(), layout.facts.end(),
                                  [&](const LayerFacts& facts) { return facts.softmax_scale == first; });
  return shared ? nlohmann::ordered_json(first) : nlohmann::ordered_json();
}

// All of the JSON export but the vectors.
nlohmann::ordered_json Head(const TraceReader& trace, const Cut& cut) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (int64_t i = cut.begin; i < cut.end; ++i) {
    const TokenRecord& token = trace.tokens()[static_cast<size_t>(i)];
    tokens.push_back({{"id", token.id}, {"text", token.text}});
  }
  return {{"format", "headscope-export"},
          {"version", 1},
          {"model", ModelJson(cut.layout.model)},
          {"encoding", EncodingName(cut.layout.encoding)},
          {"softmax_scale", SharedScale(cut.layout)},
          {"layers", LayersJson(cut.layout)},
          {"first_token", cut.layout.first_token},
          {"tokens", tokens}};
}

}  // namespace

void ExportTrace(const TraceReader& trace, const ExportSelection& selection, const ExportStorage& storage,
                 const std::string& path, const ExportProgress& progress, const std::stop_token& stop) {
  Cut cut = MakeCut(trace, selection);
  if (storage.encoding) cut.layout.encoding = *storage.encoding;
  Meter meter(cut, progress, stop, /*passes=*/2);
  TraceFilesWriter writer(path, cut.layout, storage.num_files, /*overwrite=*/false, cut.row_end - cut.row_begin,
                          storage.storage);
  WholeOrNothing(writer.paths(), [&] {
    WriteCut(trace, cut, writer, meter);
    VerifyCut(trace, cut, writer.paths().front(), storage.storage, meter);
  });
}

void ExportCsv(const TraceReader& trace, const ExportSelection& selection, const CsvOrigin& origin,
               const std::string& path, const ExportProgress& progress, const std::stop_token& stop) {
  const Cut cut = MakeCut(trace, selection);
  Meter meter(cut, progress, stop);
  TextFile file(path);
  WholeOrNothing({path}, [&] {
    // One table has one width: shorter vectors leave their last cells empty.
    size_t dim = 0;
    for (const LayerFacts& facts : cut.layout.facts) {
      dim = std::max(dim, static_cast<size_t>(std::max(facts.head_dim, facts.v_head_dim)));
    }
    std::string line = "tensor,layer,head,token,position,lse,lse_keys";
    for (size_t i = 0; i < dim; ++i) {
      line += ",d" + std::to_string(i);
    }
    file.Write(line + origin.names + "\n");
    const std::string end = origin.cells + "\n";
    ForEachStep(trace, cut, meter, [&](const Vectors& step, bool, bool) {
      for (size_t i = 0; i < step.tokens.size(); ++i) {
        line = step.tensor;
        for (const int64_t cell :
             {int64_t{step.layer}, int64_t{step.head}, step.tokens[i], cut.layout.first_token + step.tokens[i]}) {
          line.append(",").append(std::to_string(cell));
        }
        line += ',';
        if (!step.lse.empty()) {
          AppendNumber(line, step.lse[i], false);
        }
        line += ',';
        if (!step.lse_keys.empty()) {
          line += std::to_string(step.lse_keys[i]);
        }
        for (size_t d = 0; d < dim; ++d) {
          line += ',';
          if (d < step.dim) AppendNumber(line, step.values[i * step.dim + d], false);
        }
        file.Write(line += end);
      }
    });
    file.Close();
  });
}

void ExportJson(const TraceReader& trace, const ExportSelection& selection, const std::string& path,
                const ExportProgress& progress, const std::stop_token& stop) {
  const Cut cut = MakeCut(trace, selection);
  Meter meter(cut, progress, stop);
  TextFile file(path);
  WholeOrNothing({path}, [&] {
    std::string head = Head(trace, cut).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    head.pop_back();  // the closing brace: the heads are streamed behind it
    file.Write(head + ",\"heads\":[");
    std::string tokens, lse, lse_keys, text, separator;
    ForEachStep(trace, cut, meter, [&](const Vectors& step, bool first, bool last) {
      if (first) {
        text = separator + "\n{\"tensor\":\"" + step.tensor + "\",\"layer\":" + std::to_string(step.layer) +
               ",\"head\":" + std::to_string(step.head) + ",\"values\":[";
        tokens.clear();
        lse.clear();
        lse_keys.clear();
        separator = ",";
      }
      for (size_t i = 0; i < step.tokens.size(); ++i) {
        const char* comma = tokens.empty() ? "" : ",";
        text += comma;
        text += '[';
        for (size_t d = 0; d < step.dim; ++d) {
          text += d == 0 ? "" : ",";
          AppendNumber(text, step.values[i * step.dim + d], true);
        }
        text += ']';
        tokens += comma + std::to_string(step.tokens[i]);
        if (!step.lse.empty()) {
          lse += comma;
          AppendNumber(lse, step.lse[i], true);
          lse_keys += comma + std::to_string(step.lse_keys[i]);
        }
      }
      file.Write(text);
      text.clear();
      if (last) {
        const std::string of_q = ",\"lse\":[" + lse + "],\"lse_keys\":[" + lse_keys + "]";
        file.Write("],\"tokens\":[" + tokens + "]" + (step.tensor == 'q' ? of_q : "") + "}");
      }
    });
    file.Write("]}\n");
    file.Close();
  });
}

}  // namespace headscope::data
