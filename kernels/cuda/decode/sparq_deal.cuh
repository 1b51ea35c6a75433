// SPDX-License-Identifier: Apache-2.0
// Which items a block scores, and in which order.
//
// Blocks stay for many items, because a block's next item must be known before this one is done: its query, its
// components and its first rows are requested meanwhile. Where nobody waits, a block begins with two items and asks for
// another whenever it begins one; who merges a KV head's spans on the way takes fewer. A block that a warp feeds begins
// with one and asks in the middle of each: in the end nobody then waits for items that a late block holds. Where the
// spans of a KV head wait for each other, all blocks are resident (a cooperative launch) and form teams of one block a
// span that go through the KV heads together; so nobody waits for more than its team.
#pragma once

#include "decode/sparq_shared.cuh"

namespace headscope::kernels::decode {

// A block's first item is its own number, its second is gridDim.x further. By one thread, once an item, with the
// block's next one: the item after that, or none (plan.items or more).
__device__ __forceinline__ int ItemAfter(const SparqParams& p, int next) {
  const int blocks = static_cast<int>(gridDim.x);
  if (p.plan.waits != 0 || next >= p.plan.items) return min(next, p.plan.items) + blocks;
  uint32_t* counter = p.finished + p.plan.lists;
  const auto asked = static_cast<int>(atomicAdd(counter, 1u));
  // Blocks ask once for every item that is a next one: for all but the blocks' first.
  if (asked + 1 == p.plan.items - blocks) *counter = 0;
  return asked + 2 * blocks;
}

// A block's first item is its own number. By one thread of a feeding warp, once an item: the next one, or none.
__device__ __forceinline__ int NextItem(const SparqParams& p) {
  uint32_t* counter = p.finished + p.plan.lists;
  const auto asked = static_cast<int>(atomicAdd(counter, 1u));
  if (asked + 1 == p.plan.items) *counter = 0;  // for the last item as well: ready for the next call
  return asked + static_cast<int>(gridDim.x);
}

}  // namespace headscope::kernels::decode
