// SPDX-License-Identifier: Apache-2.0
// Which of a machine's devices holds which layers of a model, by their free memory (`--device auto`).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/device.h"
#include "model/capture_points.h"
#include "model/checkpoint.h"
#include "model/model_config.h"
#include "model/model_session.h"
#include "model/pass_memory.h"

namespace headscope::model {

// A device and the bytes of it that a model may take.
struct DeviceRoom {
  Device device;
  int64_t free_bytes = 0;
};

// A GPU that a model was not placed on, and why, in words that end a sentence.
struct PassedOver {
  Device device;
  std::string reason;
};

// The devices that a model may be placed on, and the GPUs that it may not.
struct MachineRooms {
  std::vector<DeviceRoom> rooms;
  std::vector<PassedOver> passed_over;
};

// Where a model's layers lie.
struct Placement {
  std::vector<Device> layers;  // the device of each
  std::string passed_over;     // which GPUs hold none of them because they cannot, and why; empty: none
};

// Of a layer that reads another one's keys and values: which one's, and their bytes. A device that has such a layer but
// not the one that it reads keeps a copy of them, one for all of its layers.
struct SharedKeys {
  int32_t source = -1;  // -1: it has its own
  int64_t bytes = 0;
};

// Bytes that a model takes where it runs.
struct ModelSizes {
  std::vector<int64_t> layers;  // of each layer that is loaded: weights and cache, or what a recurrent mixer remembers
  int64_t ends = 0;             // what lies before the first and after the last layer: it goes with the first one
  int64_t pass = 0;             // what a pass takes beside them, on each device that has a layer
  std::vector<SharedKeys> shared = {};  // of each layer; empty: none reads another one's keys
};

// A device for each layer. A device that has room for everything takes it, the first of them if there are several; else
// layers go in their order to the devices in theirs, as many as each has room for, so that hidden states move as seldom
// as can be. Throws DeviceError where there is not enough room.
std::vector<Device> PlaceLayers(const ModelSizes& sizes, std::span<const DeviceRoom> rooms);

// The GPUs among `rooms` that hold no layer of `placed`, as PlaceLayers returned it, for lack of memory.
std::vector<PassedOver> TooSmall(const ModelSizes& sizes, std::span<const DeviceRoom> rooms,
                                 std::span<const Device> placed);

// Of a model with numbers of so many bytes, a cache of so many tokens and passes of at most `pass_tokens`, of which
// `points` are recorded, and which end behind `last_layer` without logits: neither the layers above nor the head are
// loaded then. Without it: all of the model. Reads no weight, and has `checkpoint` skip what nothing uses.
ModelSizes SizesOf(Checkpoint* checkpoint, const ModelConfig& config, int64_t number_bytes, int64_t tokens,
                   int64_t pass_tokens, std::span<const CapturePoint> points = {},
                   std::optional<int32_t> last_layer = {});

// What the copies of shared keys (SharedKeys) take on all devices together, of layers that lie there as PlaceLayers
// puts them; no devices: they are on one. `last_layer` as SizesOf has it.
int64_t CopiedKeyBytes(const ModelConfig& config, std::span<const Device> layer_devices, int64_t number_bytes,
                       int64_t tokens, std::optional<int32_t> last_layer = {});

// What a token mixer in place of attention remembers of the tokens before a pass.
int64_t MixerStateBytes(const ModelConfig& config, int64_t number_bytes);

// The GPUs that LibTorch can use, that with most free memory first, and the CPU. What LibTorch and the program take
// themselves is no room.
MachineRooms DeviceRooms();

// PlaceLayers of a checkpoint over DeviceRooms, for SessionOptions::layer_devices: with dtype and chunk_tokens of
// `options`, room for `tokens` and for what `points` need, and `last_layer` as SizesOf has it. Throws BadInputError,
// DeviceError.
Placement PlaceByMemory(const std::string& model_dir, const SessionOptions& options, int64_t tokens,
                        std::span<const CapturePoint> points, std::optional<int32_t> last_layer);

// "cuda:0 is not used: CUDA does not start (..); cuda:1 is not used: ..".
std::string PassedOverText(std::span<const PassedOver> gpus);

// "layers 0-11 on cuda:0, 12-31 on cpu".
std::string PlacementText(std::span<const Device> layer_devices);

}  // namespace headscope::model
