// SPDX-License-Identifier: Apache-2.0
// What a trace holds, as plain data. docs/trace_format.md is the reference of the file format (trace formats 2 and 3).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/element_type.h"

namespace headscope::data {

enum class TokenPhase : int8_t { kPrompt = 0, kDecode = 1 };
enum class TokenRole : int8_t { kText = 0, kSpecial = 1, kImage = 2, kAudio = 3, kVideo = 4 };

// How a layer mixes tokens. Only the first three have heads to record; the others stand in ModelInfo::layer_kinds, so
// that layer numbers are the model's.
enum class LayerKind : int8_t {
  kAttention = 0,  // every row sees all keys up to its own
  kSliding = 1,    // the newest `window` of them
  kChunked = 2,    // those of its own block of `chunk` positions
  kLinear = 3,     // a recurrence: linear attention, state space
  kNone = 4        // neither, such as a short convolution
};
enum class RopeConvention : int8_t { kNone = 0, kHalf = 1, kInterleaved = 2 };
// Where q and k are normalised, and over what: each head, or all heads of the layer at once.
enum class NormPlace : int8_t {
  kUnknown = 0,
  kNone = 1,
  kHeadBeforeRope = 2,
  kHeadAfterRope = 3,
  kLayerBeforeRope = 4,
  kLayerAfterRope = 5
};
// What the model multiplies a head's output with, before the output projection. It is no part of q, k, v or lse.
enum class OutputGate : int8_t { kNone = 0, kPerHead = 1, kPerChannel = 2 };

struct ModelInfo {
  std::string name;  // as shown: the model folder's name
  std::string model_type;
  std::string config_json;
  std::string weights_sha256;    // hex, of the concatenated shards in name order
  std::string tokenizer_sha256;  // hex
  int32_t num_layers = 0;
  // Of most layers; what a recorded layer has is in its LayerFacts.
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  std::vector<LayerKind> layer_kinds = {};  // [num_layers]; empty: not known (a trace of format 1)
};

struct RopeFacts {
  RopeConvention convention = RopeConvention::kHalf;  // kNone: the layer knows no positions
  float theta = 0;                                    // 0: not known
  int32_t num_dims = 0;                               // components of a head that turn; 0: all
  int32_t first_dim = 0;                              // where they begin
  float attention_factor = 1;                         // on cosine and sine
  bool operator==(const RopeFacts&) const = default;
};

// The keys that the model itself chose for a query (trained sparse attention), as stored beside it.
struct SelectionFacts {
  int32_t sets = 0;   // per query row: 0 none, 1 one for all heads, or one for each KV head of the layer
  int32_t ids = 0;    // of one set; shorter sets are filled up with -1
  int32_t block = 1;  // tokens that an id stands for: id * block ... id * block + block - 1, as positions in the prompt
  // The vectors that chose; 0 heads: not stored.
  int32_t index_heads = 0, index_kv_heads = 0, index_dim = 0;
  bool operator==(const SelectionFacts&) const = default;
};

// Everything that may differ from layer to layer, of one recorded layer.
struct LayerFacts {
  int32_t num_qo_heads = 0;            // of the model's layer
  int32_t num_kv_heads = 0;            // divides num_qo_heads
  int32_t head_dim = 0;                // of q and k
  int32_t v_head_dim = 0;              // of v
  std::vector<int32_t> qo_heads = {};  // recorded query heads
  std::vector<int32_t> kv_heads = {};  // recorded KV heads: all that the recorded query heads read
  float softmax_scale = 0;             // multiplies q.k; a position's own factor is in q already
  float soft_cap = 0;                  // of scores; 0: none
  int32_t window = 0;                  // tokens that a row sees, its own among them; 0: none
  int32_t chunk = 0;                   // tokens of a block that attends within itself; 0: none
  bool bidirectional = false;          // rows see what comes after them too, as an encoder's; then no window, no chunk
  RopeFacts rope = {};
  // One logit for each of the layer's num_qo_heads, which joins every row's softmax and has no value; empty: none. The
  // recorded lse has it among its terms.
  std::vector<float> sinks = {};
  NormPlace norm = NormPlace::kUnknown;
  OutputGate output_gate = OutputGate::kNone;
  bool v_is_k = false;           // v is the first v_head_dim components of k as recorded, and not stored again
  int32_t kv_layer = -1;         // the layer whose k and v this one reads; -1: its own
  int32_t selection_layer = -1;  // the layer whose selection this one uses; -1: its own, if it has one
  // What is stored beside q, k, v and lse.
  bool has_pre_rope = false;        // q and k before RoPE
  bool has_value_norms = false;     // |W_o v| of every query head and token
  bool has_hidden_norms = false;    // norm of every token's hidden state as the layer gets it
  bool has_projection = false;      // q and k before their norm
  bool has_cache = false;           // k and v as the cache holds them
  bool has_residual = false;        // every token's hidden state as the layer gets it
  bool has_head_outputs = false;    // every query head's part of the output projection's input
  bool has_value_norms_l1 = false;  // the L1 norm of W_o v, likewise
  int32_t hidden_size = 0;          // numbers of a hidden state; 0 where none is stored
  SelectionFacts selection = {};

  int32_t GroupSize() const { return num_qo_heads / num_kv_heads; }
  LayerKind Kind() const {
    return window > 0 ? LayerKind::kSliding : chunk > 0 ? LayerKind::kChunked : LayerKind::kAttention;
  }
  // First position that a row at `position` sees; the last one is its own, unless the layer is bidirectional.
  int64_t FirstSeen(int64_t position) const {
    if (chunk > 0) return position - position % chunk;
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
  bool operator==(const LayerFacts&) const = default;
};

// Facts of a layer that is as the model says of most: all heads recorded, scale head_dim^-0.5.
LayerFacts UsualFacts(const ModelInfo& model);

// Which file it is of a trace that is spread over several (docs/trace_format.md, "Several files").
struct TraceFilePlace {
  std::string set = {};  // 32 hexadecimal digits: the files of one trace share them, and no other trace has the same
  int32_t number = 0;    // 1 to count
  int32_t count = 0;     // 0: the trace is this one file
  bool operator==(const TraceFilePlace&) const = default;
};

// Fixed before the first token is written. Layers and heads are the model's own numbers, sorted, without repeats.
struct TraceLayout {
  ModelInfo model;
  std::vector<int32_t> layers;    // recorded layers
  std::vector<LayerFacts> facts;  // one for each of them
  ElementType encoding = ElementType::kBFloat16;
  std::string capture_point = "post-rope";  // of q and k; v is always the projection's output
  std::string attention = {};  // what computed the model's attention, as headscope's methods are named; empty: dense
  std::string row_selection = "all";  // as typed: all, last:N, every:N
  std::string prompt_source;          // "text", "prompt FILE", "task NAME length N seed S"
  std::string task_answer;            // the expected answer of a task; empty otherwise
  // Of a task whose answer the model was let give: so many of the first generated tokens stand where it belongs, and
  // how good they are, 0 to 1 (eval::ScoreOfAnswer); NaN as long as they are not all there. 0 tokens: not judged.
  int32_t answer_tokens = 0;
  float answer_score = std::numeric_limits<float>::quiet_NaN();
  int64_t max_tokens = 0;  // extent limit (prompt + decode)
  // Of a trace cut from a longer one (trace_export.h): position there of this trace's token 0. The lse of such a trace
  // still counts the tokens before it, so a row's probabilities sum to the share of its attention that lies inside the
  // cut.
  int64_t first_token = 0;
  bool has_roles = false;     // TokenRecord::role is stored; else every token is text
  int32_t position_axes = 0;  // 1 to 3: that many of TokenRecord::positions are stored; 0: first_token + its number
  TraceFilePlace place = {};  // for the writer: a reader's layout is of the whole trace
};

// Whether a recorded layer's k and v are stored as its own: not where a recorded layer with the same heads has them.
bool StoresKeys(const TraceLayout& layout, size_t slot);

struct TokenRecord {
  int32_t id = 0;
  TokenPhase phase = TokenPhase::kPrompt;
  int32_t step = 0;  // forward pass (prefill chunk or decode step) that made it
  std::string text;  // bytes of the token as decoded alone (may be part of a UTF-8 sequence)
  TokenRole role = TokenRole::kText;
  std::array<int32_t, 3> positions = {};  // what RoPE turned it by; images have time, height and width
  bool operator==(const TokenRecord&) const = default;
};

// What a trace stores of a layer, for TraceReader::Read and LayerBlock.
enum class TraceTensor : uint8_t {
  kQ = 0,         // [qo_heads, rows, head_dim] in the trace's encoding
  kK,             // [kv_heads, tokens, head_dim]
  kV,             // [kv_heads, tokens, v_head_dim]
  kLse,           // [qo_heads, rows] fp32, natural log
  kQPreRope,      // as kQ
  kKPreRope,      // as kK
  kValueNorms,    // [qo_heads, tokens] fp32
  kHiddenNorms,   // [1, tokens] fp32
  kSelection,     // [selection.sets, rows, selection.ids] int32
  kIndexQ,        // [selection.index_heads, rows, selection.index_dim] in the trace's encoding
  kIndexK,        // [selection.index_kv_heads, tokens, selection.index_dim]
  kIndexWeights,  // [selection.index_heads, rows] fp32
  kQProjection,   // as kQ
  kKProjection,   // as kK
  kCacheK,        // as kK
  kCacheV,        // as kV
  kResidual,      // [1, tokens, hidden_size] in the trace's encoding
  kHeadOutput,    // [qo_heads, rows, v_head_dim] in the trace's encoding
  kValueNormsL1,  // as kValueNorms
};
inline constexpr int kNumTraceTensors = 19;

}  // namespace headscope::data
