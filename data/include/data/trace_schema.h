// What a trace holds, as plain data. docs/trace_format.md is the reference of the file format (trace format 1).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace headscope::data {

// Any refusal of a trace: one sentence that names the file, the field and the remedy.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// The trace itself is at fault or is not there (exit code 3), as opposed to the disk or the caller.
class BadTraceError : public TraceError {
 public:
  using TraceError::TraceError;
};

enum class Encoding : uint8_t { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2 };
inline int64_t SizeOf(Encoding encoding) {
  return encoding == Encoding::kFloat32 ? 4 : 2;
}

enum class TokenPhase : int8_t { kPrompt = 0, kDecode = 1 };

struct ModelInfo {
  std::string name;  // as shown: the model folder's name
  std::string model_type;
  std::string config_json;
  std::string weights_sha256;    // hex, of the concatenated shards in name order
  std::string tokenizer_sha256;  // hex
  int32_t num_layers = 0;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
};

// Fixed before the first token is written. Layers and heads are the model's own numbers, sorted, without repeats.
struct TraceLayout {
  ModelInfo model;
  std::vector<int32_t> layers;    // recorded layers
  std::vector<int32_t> qo_heads;  // recorded query heads, the same in every layer
  std::vector<int32_t> kv_heads;  // recorded KV heads: all that the recorded query heads read
  Encoding encoding = Encoding::kBFloat16;
  std::string capture_point = "post-rope";  // of q and k; v is always the projection's output
  std::string rope_convention = "half";     // "half", "interleaved" or "none"
  float softmax_scale = 0;
  float soft_cap = 0;                     // 0: none
  std::vector<int32_t> window_per_layer;  // tokens; 0: none; one entry per recorded layer
  std::string row_selection = "all";      // as typed: all, last:N, every:N
  std::string prompt_source;              // "text", "prompt FILE", "task NAME length N seed S"
  std::string task_answer;                // the expected answer of a task; empty otherwise
  int64_t max_tokens = 0;                 // extent limit (prompt + decode)
  // Of a trace cut from a longer one (trace_export.h): position there of this trace's token 0. The lse of such a trace
  // still counts the tokens before it, so a row's probabilities sum to the share of its attention that lies inside the
  // cut.
  int64_t first_token = 0;
};

struct TokenRecord {
  int32_t id = 0;
  TokenPhase phase = TokenPhase::kPrompt;
  int32_t step = 0;  // forward pass (prefill chunk or decode step) that made it
  std::string text;  // bytes of the token as decoded alone (may be part of a UTF-8 sequence)
};

}  // namespace headscope::data
