#include "data/trace_export.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/number_list.h"
#include "data/model_json.h"
#include "data/trace_writer.h"
#include "trace/trace_format.h"

namespace headscope::data {
namespace {

constexpr int64_t kItemsPerStep = 1024;  // tokens or rows held in memory at a time

// A selection in terms of the trace's slots, and the layout of what is cut out.
struct Cut {
  TraceLayout layout;
  std::vector<int32_t> layer_slots, qo_slots, kv_slots;
  int64_t begin = 0, end = 0;          // tokens
  int64_t row_begin = 0, row_end = 0;  // recorded query rows
};

std::vector<int32_t> Slots(const std::vector<int32_t>& held, const std::vector<int32_t>& wanted,
                           const std::string& field, const std::string& path) {
  const auto slot_of = [&](int32_t number) {
    const auto found = std::lower_bound(held.begin(), held.end(), number);
    if (found == held.end() || *found != number) {
      throw TraceError(path + ": " + field + "s " + NumberListText(wanted) + ": the trace holds no " + field + " " +
                       std::to_string(number) + ", only " + NumberListText(held) + "; choose from those");
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

Cut MakeCut(const TraceReader& trace, const ExportSelection& selection) {
  if (trace.num_tokens() == 0) {
    throw BadTraceError(
        trace.path() +
        ": the trace holds no token, so there is nothing to export: its capture ended before the first; "
        "capture it again");
  }
  Cut cut;
  cut.layout = trace.layout();
  cut.begin = selection.first_token;
  cut.end = selection.end_token < 0 ? trace.num_tokens() : selection.end_token;
  if (cut.begin < 0 || cut.begin >= cut.end || cut.end > trace.num_tokens()) {
    throw TraceError(trace.path() + ": tokens " + std::to_string(cut.begin) + ":" + std::to_string(cut.end) +
                     " are not in the trace: it holds 0:" + std::to_string(trace.num_tokens()));
  }
  const TraceLayout& whole = trace.layout();
  cut.layout.layers = SortedOrAll(selection.layers, whole.layers);
  cut.layout.qo_heads = SortedOrAll(selection.qo_heads, whole.qo_heads);
  cut.layer_slots = Slots(whole.layers, cut.layout.layers, "layer", trace.path());
  cut.qo_slots = Slots(whole.qo_heads, cut.layout.qo_heads, "head", trace.path());
  const int32_t group = whole.model.num_qo_heads / whole.model.num_kv_heads;
  cut.layout.kv_heads.clear();
  for (const int32_t head : cut.layout.qo_heads) {
    cut.layout.kv_heads.push_back(head / group);
  }
  cut.layout.kv_heads = SortedOrAll(cut.layout.kv_heads, {});
  cut.kv_slots = Slots(whole.kv_heads, cut.layout.kv_heads, "KV head", trace.path());
  cut.layout.window_per_layer.clear();
  for (const int32_t slot : cut.layer_slots) {
    cut.layout.window_per_layer.push_back(whole.window_per_layer[static_cast<size_t>(slot)]);
  }
  cut.layout.first_token = whole.first_token + cut.begin;
  cut.layout.max_tokens = cut.end - cut.begin;
  const std::vector<int32_t>& rows = trace.row_positions();
  cut.row_begin = std::lower_bound(rows.begin(), rows.end(), cut.begin) - rows.begin();
  cut.row_end = std::lower_bound(rows.begin(), rows.end(), cut.end) - rows.begin();
  return cut;
}

// Reports progress in vectors done; remembers that somebody asked to stop.
class Meter {
 public:
  Meter(const Cut& cut, const ExportProgress& progress) : progress_(progress) {
    const auto layers = static_cast<int64_t>(cut.layer_slots.size());
    total_ = layers * (static_cast<int64_t>(cut.qo_slots.size()) * (cut.row_end - cut.row_begin) +
                       2 * static_cast<int64_t>(cut.kv_slots.size()) * (cut.end - cut.begin));
  }
  bool Advance(int64_t vectors) {
    done_ += vectors;
    return !progress_ || progress_(static_cast<double>(done_) / static_cast<double>(std::max<int64_t>(1, total_)));
  }

 private:
  const ExportProgress& progress_;
  int64_t total_ = 0, done_ = 0;
};

// [heads, items, head_dim] of one layer, as TraceWriter::Append takes it.
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

bool WriteCut(const TraceReader& trace, const Cut& cut, TraceWriter& writer, Meter& meter) {
  const int64_t vector_bytes = cut.layout.model.head_dim * SizeOf(cut.layout.encoding);
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
      const int32_t slot = cut.layer_slots[layer];
      const auto q = Gather(cut.qo_slots, next_row - row, vector_bytes,
                            [&](int32_t head, void* out) { trace.ReadQ(slot, head, row, next_row, out); });
      const auto lse = Gather(cut.qo_slots, next_row - row, 4, [&](int32_t head, void* out) {
        trace.ReadLse(slot, head, row, next_row, static_cast<float*>(out));
      });
      const auto k = Gather(cut.kv_slots, end - begin, vector_bytes,
                            [&](int32_t head, void* out) { trace.ReadK(slot, head, begin, end, out); });
      const auto v = Gather(cut.kv_slots, end - begin, vector_bytes,
                            [&](int32_t head, void* out) { trace.ReadV(slot, head, begin, end, out); });
      writer.Append({static_cast<int32_t>(layer), begin - cut.begin, end - begin, row - cut.row_begin, next_row - row,
                     q.data(), k.data(), v.data(), reinterpret_cast<const float*>(lse.data())});
      if (!meter.Advance(static_cast<int64_t>(cut.qo_slots.size()) * (next_row - row) +
                         2 * static_cast<int64_t>(cut.kv_slots.size()) * (end - begin))) {
        return false;
      }
    }
    row = next_row;
  }
  writer.Finish();
  return true;
}

// A text file that is new, buffered, and complains about every failed write.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wx"), &std::fclose) {
    if (file_ == nullptr && errno == EEXIST) {
      throw TraceError(path + ": exists already; choose another name");
    }
    if (file_ == nullptr) {
      throw TraceError(path + ": cannot be created (" + std::strerror(errno) +
                       "); choose a new name in a folder that can be written");
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
    throw TraceError(path_ + ": writing failed; free some disk space or choose another folder");
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
  std::vector<int64_t> tokens;    // positions in the cut
  std::vector<float> lse;         // q only
  std::vector<int64_t> lse_keys;  // q only
  std::vector<float> values;      // [tokens, head_dim]
};

// Calls `use(vectors, first, last)` for every tensor, layer and head in steps of a bounded size; first and last tell
// where a head begins and ends. Stops, returning false, when the meter says so.
template <typename Use>
bool ForEachStep(const TraceReader& trace, const Cut& cut, Meter& meter, Use use) {
  const Encoding encoding = cut.layout.encoding;
  const int64_t dim = cut.layout.model.head_dim;
  for (size_t layer = 0; layer < cut.layer_slots.size(); ++layer) {
    const int32_t layer_slot = cut.layer_slots[layer];
    for (const char tensor : {'q', 'k', 'v'}) {
      const bool query = tensor == 'q';
      const auto& slots = query ? cut.qo_slots : cut.kv_slots;
      const auto& heads = query ? cut.layout.qo_heads : cut.layout.kv_heads;
      const int64_t begin = query ? cut.row_begin : cut.begin, end = query ? cut.row_end : cut.end;
      for (size_t head = 0; head < slots.size(); ++head) {
        for (int64_t at = begin; at == begin || at < end; at += kItemsPerStep) {
          const int64_t next = std::min(at + kItemsPerStep, end), count = next - at;
          Vectors step;
          step.tensor = tensor;
          step.layer = cut.layout.layers[layer];
          step.head = heads[head];
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
          if (!meter.Advance(count)) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

// Runs write() on the file `path`, which the caller has just made; whatever keeps it from finishing, no half file stays
// behind. A file that somebody else made in the meantime is not the caller's to remove: hence it is made before.
template <typename Write>
bool WholeOrNothing(const std::string& path, Write write) {
  bool finished = false;
  try {
    finished = write();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
  if (!finished) {
    std::filesystem::remove(path);
  }
  return finished;
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
          {"softmax_scale", cut.layout.softmax_scale},
          {"first_token", cut.layout.first_token},
          {"tokens", tokens}};
}

}  // namespace

bool ExportTrace(const TraceReader& trace, const ExportSelection& selection, const std::string& path,
                 const ExportProgress& progress) {
  const Cut cut = MakeCut(trace, selection);
  Meter meter(cut, progress);
  TraceWriter writer(path, cut.layout, /*overwrite=*/false, cut.row_end - cut.row_begin);
  return WholeOrNothing(path, [&] { return WriteCut(trace, cut, writer, meter); });
}

bool ExportCsv(const TraceReader& trace, const ExportSelection& selection, const std::string& path,
               const ExportProgress& progress) {
  const Cut cut = MakeCut(trace, selection);
  Meter meter(cut, progress);
  TextFile file(path);
  return WholeOrNothing(path, [&] {
    const auto dim = static_cast<size_t>(cut.layout.model.head_dim);
    std::string line = "tensor,layer,head,token,position,lse,lse_keys";
    for (size_t i = 0; i < dim; ++i) {
      line += ",d" + std::to_string(i);
    }
    file.Write(line + "\n");
    const bool finished = ForEachStep(trace, cut, meter, [&](const Vectors& step, bool, bool) {
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
          AppendNumber(line, step.values[i * dim + d], false);
        }
        file.Write(line += '\n');
      }
    });
    file.Close();
    return finished;
  });
}

bool ExportJson(const TraceReader& trace, const ExportSelection& selection, const std::string& path,
                const ExportProgress& progress) {
  const Cut cut = MakeCut(trace, selection);
  Meter meter(cut, progress);
  TextFile file(path);
  return WholeOrNothing(path, [&] {
    const auto dim = static_cast<size_t>(cut.layout.model.head_dim);
    std::string head = Head(trace, cut).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    head.pop_back();  // the closing brace: the heads are streamed behind it
    file.Write(head + ",\"heads\":[");
    std::string tokens, lse, lse_keys, text, separator;
    const bool finished = ForEachStep(trace, cut, meter, [&](const Vectors& step, bool first, bool last) {
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
        for (size_t d = 0; d < dim; ++d) {
          text += d == 0 ? "" : ",";
          AppendNumber(text, step.values[i * dim + d], true);
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
    return finished;
  });
}

}  // namespace headscope::data
