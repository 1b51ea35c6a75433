// SPDX-License-Identifier: Apache-2.0
#include "model/layer_placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/byte_text.h"
#include "base/errors.h"
#include "base/host_memory.h"
#include "checkpoint/expected_weights.h"
#include "families/family.h"
#include "model/pass_memory.h"
#include "model/safetensors.h"
#include "network/torch_library.h"

namespace headscope::model {
namespace {

// What the process holds beside a model: the program with LibTorch, and what waits to be written.
constexpr int64_t kProgramBytes = int64_t{512} << 20;

[[noreturn]] void RefuseAll(int64_t needed, std::span<const DeviceRoom> rooms) {
  std::string free_bytes;
  for (const DeviceRoom& room : rooms)
    free_bytes.append(free_bytes.empty() ? "" : ", ")
        .append(DeviceText(room.device))
        .append(" ")
        .append(ByteText(room.free_bytes));
  throw DeviceError({.field = "device",
                     .value = "auto",
                     .problem = "the model takes about " + ByteText(needed) + ", and free are " + free_bytes,
                     .remedy = "close other programs, or use bf16, a shorter prompt or smaller chunks"});
}

// The numbers that are fp32 whatever the model's are.
constexpr int64_t kFloatBytes = 4;

std::vector<SharedKeys> SharedKeysOf(const ModelConfig& config, int64_t number_bytes, int64_t tokens,
                                     std::optional<int32_t> last_layer) {
  std::vector<SharedKeys> shared;
  for (const AttentionLayer& layer : LayersRun(config, last_layer)) {
    const int64_t numbers = layer.num_kv_heads * (int64_t{layer.head_dim} + layer.v_head_dim);
    shared.push_back(layer.kv_layer < 0 ? SharedKeys{} : SharedKeys{layer.kv_layer, numbers * tokens * number_bytes});
  }
  return shared;
}

// What a layer's device keeps for it of a layer on another one, where it holds the layers from `first` on.
int64_t CopyFor(std::span<const SharedKeys> shared, size_t first, size_t layer) {
  if (shared.empty() || shared[layer].source < 0 || static_cast<size_t>(shared[layer].source) >= first) return 0;
  const auto there = shared.subspan(first, layer - first);
  const bool is_there = std::ranges::find(there, shared[layer].source, &SharedKeys::source) != there.end();
  return is_there ? 0 : shared[layer].bytes;
}

}  // namespace

std::vector<Device> PlaceLayers(const ModelSizes& sizes, std::span<const DeviceRoom> rooms) {
  const int64_t all = std::accumulate(sizes.layers.begin(), sizes.layers.end(), sizes.ends + sizes.pass);
  // On one GPU nothing moves; several together still outrun the CPU, which is last.
  for (const DeviceRoom& room : rooms) {
    if (room.device.is_gpu() && room.free_bytes >= all) return std::vector<Device>(sizes.layers.size(), room.device);
  }
  std::vector<Device> placed;
  for (const DeviceRoom& room : rooms) {
    int64_t left = room.free_bytes - sizes.pass - (placed.empty() ? sizes.ends : 0);
    for (const size_t first = placed.size(); placed.size() < sizes.layers.size();) {
      const int64_t needed = sizes.layers[placed.size()] + CopyFor(sizes.shared, first, placed.size());
      if (needed > left) break;
      left -= needed;
      placed.push_back(room.device);
    }
  }
  if (placed.size() < sizes.layers.size()) RefuseAll(all, rooms);
  return placed;
}

std::vector<PassedOver> TooSmall(const ModelSizes& sizes, std::span<const DeviceRoom> rooms,
                                 std::span<const Device> placed) {
  std::vector<PassedOver> gpus;
  for (const DeviceRoom& room : rooms) {
    if (!room.device.is_gpu() || std::ranges::find(placed, room.device) != placed.end()) continue;
    // Rooms are filled in their order: the first layer behind those of the rooms before it was too large for it.
    size_t next = 0;
    for (const DeviceRoom* before = rooms.data(); before != &room; ++before)
      next += static_cast<size_t>(std::ranges::count(placed, before->device));
    if (next == placed.size()) continue;  // nothing was left for it
    const int64_t needed =
        sizes.layers[next] + CopyFor(sizes.shared, next, next) + sizes.pass + (next == 0 ? sizes.ends : 0);
    gpus.push_back({room.device, "it has " + ByteText(room.free_bytes) +
                                     " free for a model, and the first layer takes " + ByteText(needed) +
                                     " with what runs it"});
  }
  return gpus;
}

std::string PassedOverText(std::span<const PassedOver> gpus) {
  std::string text;
  for (const PassedOver& gpu : gpus)
    text.append(text.empty() ? "" : "; ").append(DeviceText(gpu.device)).append(" is not used: ").append(gpu.reason);
  return text;
}

int64_t CopiedKeyBytes(const ModelConfig& config, std::span<const Device> layer_devices, int64_t number_bytes,
                       int64_t tokens, std::optional<int32_t> last_layer) {
  const std::vector<SharedKeys> shared = SharedKeysOf(config, number_bytes, tokens, last_layer);
  int64_t bytes = 0;
  for (size_t first = 0, layer = 0; layer < layer_devices.size(); ++layer) {
    if (layer_devices[layer] != layer_devices[first]) first = layer;
    bytes += CopyFor(shared, first, layer);
  }
  return bytes;
}

int64_t MixerStateBytes(const ModelConfig& config, int64_t number_bytes) {
  const MixerRules& rules = config.mixer;
  const bool is_convolution = rules.kind == MixerKind::kShortConvolution;
  const int64_t channels = is_convolution ? config.hidden_size
                                          : 2 * int64_t{rules.num_key_heads} * rules.key_dim +
                                                int64_t{rules.num_value_heads} * rules.value_dim;
  const int64_t tail = channels * std::max(0, rules.kernel - 1);
  return int64_t{rules.num_value_heads} * rules.key_dim * rules.value_dim * kFloatBytes + tail * number_bytes;
}

ModelSizes SizesOf(Checkpoint* checkpoint, const ModelConfig& config, int64_t number_bytes, int64_t tokens,
                   int64_t pass_tokens, std::span<const CapturePoint> points, std::optional<int32_t> last_layer) {
  const auto num_loaded = static_cast<int32_t>(LayersRun(config, last_layer).size());
  const Family& family = *config.family;
  SkipUnused(checkpoint, config);
  ModelSizes sizes;
  int64_t ends = checkpoint->NumbersUnder("");
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const int64_t numbers = checkpoint->NumbersUnder(LayerPrefix(*checkpoint, family, layer));
    ends -= numbers;
    if (layer >= num_loaded) continue;
    const AttentionLayer& facts = config.layers[static_cast<size_t>(layer)];
    const int64_t remembered = facts.other_mixer ? MixerStateBytes(config, number_bytes)
                                                 : CachedNumbers(config, facts) * tokens * number_bytes;
    sizes.layers.push_back(numbers * number_bytes + remembered);
  }
  if (!last_layer) ends += HeadBesideEmbeddings(*checkpoint, config);
  if (!LoadsHead(config, /*with_logits=*/!last_layer))
    ends -= checkpoint->NumbersUnder(HeadName(*checkpoint, family) + ".weight");
  sizes.ends = ends * number_bytes;
  sizes.shared = SharedKeysOf(config, number_bytes, tokens, last_layer);
  const int64_t rows = config.family->causal ? std::min(pass_tokens, tokens) : tokens;
  const auto pass = static_cast<int64_t>(PassBytes(config, number_bytes, rows, tokens, points, last_layer));
  // While a layer is loaded its projections are put together from their parts.
  sizes.pass = std::max(pass, sizes.layers.empty() ? 0 : *std::ranges::max_element(sizes.layers));
  return sizes;
}

MachineRooms DeviceRooms() {
  MachineRooms all = GpuRooms();
  std::ranges::stable_sort(all.rooms, std::ranges::greater(), &DeviceRoom::free_bytes);
  all.rooms.push_back({kCpu, std::max<int64_t>(0, FreeHostBytes() - kProgramBytes)});
  return all;
}

Placement PlaceByMemory(const std::string& model_dir, const SessionOptions& options, int64_t tokens,
                        std::span<const CapturePoint> points, std::optional<int32_t> last_layer) {
  const ModelConfig config = ReadModelConfig(model_dir);
  Checkpoint checkpoint(model_dir);
  auto [rooms, passed_over] = DeviceRooms();
  const bool in_bf16 = options.dtype.value_or(TypeByItself(checkpoint.MainDType())) == ElementType::kBFloat16;
  const auto sizes = [&](int64_t number_bytes) {
    return SizesOf(&checkpoint, config, number_bytes, tokens,
                   options.chunk_tokens > 0 ? options.chunk_tokens : kPassTokens, points, last_layer);
  };
  // By itself a bf16 model is bf16 where a GPU has a part of it, and fp32 where the CPU has all of it.
  const ModelSizes usual = sizes(in_bf16 ? 2 : 4);
  std::vector<Device> placed = PlaceLayers(usual, rooms);
  for (PassedOver& gpu : TooSmall(usual, rooms, placed)) passed_over.push_back(std::move(gpu));
  const bool on_cpu = std::ranges::none_of(placed, &Device::is_gpu);
  if (on_cpu && in_bf16 && !options.dtype) placed = PlaceLayers(sizes(4), std::span<const DeviceRoom>(rooms).last(1));
  return {std::move(placed), PassedOverText(passed_over)};
}

std::string PlacementText(std::span<const Device> layer_devices) {
  std::string text;
  for (size_t first = 0; first < layer_devices.size();) {
    size_t next = first;
    while (next < layer_devices.size() && layer_devices[next] == layer_devices[first]) ++next;
    text.append(first == 0 ? "layers " : ", ").append(std::to_string(first));
    if (next - first > 1) text.append("-").append(std::to_string(next - 1));
    text.append(" on ").append(DeviceText(layer_devices[first]));
    first = next;
  }
  return text;
}

}  // namespace headscope::model
