#include "opened_trace.h"

#include <algorithm>
#include <string_view>

#include "analysis/compare.h"
#include "data/row_positions.h"

namespace headscope::app {
namespace {

constexpr int64_t kHeadCacheBytes = int64_t{1} << 30;

int64_t CountDecodeRows(const data::TraceReader& reader) {
  const std::vector<data::TokenRecord>& tokens = reader.tokens();
  const auto is_prompt = [&](int32_t position) {
    const auto token = static_cast<size_t>(position);
    return token >= tokens.size() || tokens[token].phase != data::TokenPhase::kDecode;
  };
  const std::vector<int32_t>& rows = reader.row_positions();
  return std::find_if(rows.rbegin(), rows.rend(), is_prompt) - rows.rbegin();
}

ui::TraceSummary Summarise(const data::TraceReader& reader) {
  const data::TraceLayout& layout = reader.layout();
  ui::TraceSummary summary;
  summary.path = reader.path();
  summary.model_name = layout.model.name;
  summary.num_tokens = reader.num_tokens();
  summary.num_rows = reader.num_rows();
  summary.num_layers = layout.model.num_layers;
  summary.num_qo_heads = layout.model.num_qo_heads;
  summary.num_kv_heads = layout.model.num_kv_heads;
  summary.head_dim = layout.model.head_dim;
  summary.complete = reader.complete();
  summary.prompt_source = layout.prompt_source;
  summary.heads = analysis::RecordedHeads(reader);
  const int32_t group_size = std::max(1, summary.num_qo_heads / std::max(1, summary.num_kv_heads));
  summary.kv_head_of_head.reserve(summary.heads.size());
  for (const analysis::HeadId& head : summary.heads) summary.kv_head_of_head.push_back(head.head / group_size);
  summary.token_text.reserve(reader.tokens().size());
  for (const data::TokenRecord& token : reader.tokens()) summary.token_text.push_back(PrintableToken(token.text));
  summary.row_positions = reader.row_positions();
  summary.num_decode_rows = CountDecodeRows(reader);
  summary.rows_contiguous = data::RowsContiguous(summary.row_positions);
  return summary;
}

// Bytes of the UTF-8 sequence at the start of `text`; 0 when there is none (also for overlong forms and surrogates).
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : (lead & 0xF0) == 0xE0        ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool refused = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0) ||
                       (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90);
  return refused ? 0 : length;
}

}  // namespace

OpenedTrace::OpenedTrace(const std::string& path)
    : reader(path), summary(Summarise(reader)), heads(reader, kHeadCacheBytes) {}

int32_t OpenedTrace::DecodeRows() const {
  if (summary.num_decode_rows == 0) return analysis::CompareOptions{}.decode_rows;
  return static_cast<int32_t>(std::min<int64_t>(summary.num_decode_rows, kMostDecodeRows));
}

std::string PrintableToken(const std::string& bytes) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string printable;
  printable.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const size_t length = SequenceLength(std::string_view(bytes).substr(i));
    if (byte == '\n') {
      printable += "\\n";
    } else if (byte == '\t') {
      printable += "\\t";
    } else if (byte == '\r') {
      printable += "\\r";
    } else if (length == 0 || byte < 0x20 || byte == 0x7F) {
      printable += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      printable.append(bytes, i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return printable;
}

}  // namespace headscope::app
