// SPDX-License-Identifier: Apache-2.0
// What a forward pass takes of a device's memory beside weights and cache, and how many tokens it may have therefore.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/capture_points.h"
#include "model/model_config.h"

namespace headscope::model {

// The layers of passes that end behind `last_layer` (the model's, without one).
std::span<const AttentionLayer> LayersRun(const ModelConfig& config, std::optional<int32_t> last_layer);

// What an attention layer's cache has of a token: without keys where it reads another layer's.
int64_t CachedNumbers(const ModelConfig& config, const AttentionLayer& layer);

// The cache of so many tokens in the attention layers that are run.
int64_t CacheBytes(const ModelConfig& config, int64_t number_bytes, int64_t tokens, std::optional<int32_t> last_layer);

// What the widest layer needs at once, beside weights and cache: in a pass of `rows` rows over `tokens` tokens, of
// which `points` are recorded. `last_layer` as LayersRun has it.
double PassBytes(const ModelConfig& config, int64_t number_bytes, int64_t rows, int64_t tokens,
                 std::span<const CapturePoint> points = {}, std::optional<int32_t> last_layer = {});

// Tokens of each pass over a prompt of `tokens`, where nobody asked for a number, on a GPU: a small model's pass takes
// the GPU less than its launches take the host, so it is as long as stays within `most_bytes` beside weights and cache,
// and at least kPassTokens. Where every pass is recorded, `recorded_bytes` a token of one layer, it also leaves the
// writers something to do before the prompt's end. PassBytes' other arguments.
inline constexpr int64_t kPassTokens = 1024;
int64_t LongPassTokens(const ModelConfig& config, int64_t number_bytes, int64_t tokens, int64_t most_bytes,
                       int64_t recorded_bytes, std::span<const CapturePoint> points = {},
                       std::optional<int32_t> last_layer = {});
// Of a GPU with so much memory free beside weights and cache: what LongPassTokens may take of it. What libraries take
// when they begin is left.
int64_t MostPassBytes(int64_t free_bytes);

}  // namespace headscope::model
