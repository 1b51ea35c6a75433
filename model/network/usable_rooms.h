// SPDX-License-Identifier: Apache-2.0
// Which of a machine's GPUs a model may be placed on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <vector>

#include "base/device.h"
#include "model/layer_placement.h"

namespace headscope::model {

// A room for each of `count` GPUs whose `free_bytes(int32_t ordinal)` says how much of it is free: one that throws is
// broken, and is passed over.
template <typename FreeBytes>
std::vector<DeviceRoom> UsableRooms(int32_t count, const FreeBytes& free_bytes) {
  std::vector<DeviceRoom> rooms;
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    try {
      rooms.push_back({CudaDevice(ordinal), std::max<int64_t>(0, free_bytes(ordinal))});
    } catch (const std::exception&) {  // the others can be used
    }
  }
  return rooms;
}

}  // namespace headscope::model
