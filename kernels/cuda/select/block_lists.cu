// SPDX-License-Identifier: Apache-2.0
// Lists of the methods that keep whole blocks of keys.
#include "select/funnel_shift.cuh"
#include "select/list_writer.cuh"
#include "select/probe_sums.cuh"
#include "select/top_lines.h"

namespace headscope::kernels::selection {
namespace {

// Bits of key blocks of 64, a bitmap per query block of 64 rows.
struct BlockSource {
  static constexpr int kUnitShift = 6;
  BlockLists lists;

  struct Units {
    const uint64_t* upper;
    const uint64_t* lower;  // null when the tile has no lower rows

    __device__ KeptUnits operator()(int32_t word) const { return {upper[word], lower == nullptr ? 0 : lower[word], 0}; }
  };

  __device__ Units Open(const ListShape&, int64_t head, int32_t tile, TilePositions rows) const {
    const uint64_t* const upper = lists.bitmaps + (head * lists.num_query_blocks + 2 * tile) * lists.words;
    return {upper, rows.HasLower() ? upper + lists.words : nullptr};
  }
};

// Bits of key blocks, a bitmap per tile.
template <int kShift>
struct TileBlockSource {
  static constexpr int kUnitShift = kShift;
  TileBlockLists lists;

  struct Units {
    const uint64_t* bitmap;

    __device__ KeptUnits operator()(int32_t word) const { return {bitmap[word], bitmap[word], 0}; }
  };

  __device__ Units Open(const ListShape& shape, int64_t head, int32_t tile, TilePositions) const {
    return {lists.bitmaps + (head * shape.num_tiles + tile) * lists.words};
  }
};

// Column stripes are key blocks of 128. Diagonal stripe s, offsets [128 s, 128 s + 127], touches every key block of 128
// from the one of first - 128 s - 127 to the one of first + 127 - 128 s.
struct StripeSource {
  static constexpr int kUnitShift = 7;
  StripeLists lists;

  struct Units {
    const uint64_t* bitmaps;  // of the head's first chunk that counts here
    int32_t num_chunks;
    int32_t words;
    int32_t block;           // of the first row
    int32_t nearest;         // stripe s reaches up to block - s + nearest ...
    int32_t farthest;        // ... from block - s - farthest on
    int32_t diagonal_begin;  // blocks kept for their own sake
    int32_t diagonal_end;

    // Blocks b of the word with stripe block - b + shift set: stripes fall as blocks rise.
    __device__ uint64_t SlashBlocks(const uint64_t* slashes, int32_t word, int32_t shift) const {
      const int32_t bit = block + shift - 64 * word - 63 + 64 * kBitmapFront;
      return __brevll(FunnelShift(slashes[bit / 64], slashes[bit / 64 + 1], bit % 64));
    }

    __device__ KeptUnits operator()(int32_t word) const {
      uint64_t kept = LowBits(diagonal_end - 64 * word) & ~LowBits(diagonal_begin - 64 * word);
      for (int32_t chunk = 0; chunk < num_chunks; ++chunk) {
        const uint64_t* const columns = bitmaps + int64_t{chunk} * 2 * words;
        kept |= columns[kBitmapFront + word];
        for (int32_t shift = -farthest; shift <= nearest; ++shift) kept |= SlashBlocks(columns + words, word, shift);
      }
      return {kept, kept, 0};
    }
  };

  __device__ Units Open(const ListShape& shape, int64_t head, int32_t tile, TilePositions rows) const {
    int32_t first_chunk = 0;
    int32_t end_chunk = lists.num_chunks;
    if (lists.own_rows_only) {
      const int32_t row = tile * kTileRows;
      const int32_t end_row = min(row + kTileRows, shape.seq_q);
      while (ChunkEnd(shape.seq_q, lists.num_chunks, first_chunk) <= row) ++first_chunk;
      end_chunk = first_chunk + 1;
      while (end_chunk < lists.num_chunks && ChunkEnd(shape.seq_q, lists.num_chunks, end_chunk - 1) < end_row) {
        ++end_chunk;
      }
    }
    // Which blocks a stripe touches depends on where in its block the first row stands: with the block's own last
    // position the near end crosses into the next block, with its first position it does not.
    const int32_t place = rows.first % kStripe;
    const int32_t block = rows.first / kStripe;
    return {lists.bitmaps + (head * lists.num_chunks + first_chunk) * 2 * lists.words,
            end_chunk - first_chunk,
            lists.words,
            block,
            place == 0 ? 0 : 1,
            place == kStripe - 1 ? 0 : 1,
            lists.keep_diagonal ? block : 0,
            lists.keep_diagonal ? rows.last / kStripe + 1 : 0};
  }
};

// S2-Attention in closed form, in blocks of 64 positions.
struct ShardSource {
  static constexpr int kUnitShift = 6;
  ShardLists lists;

  __device__ int32_t Residue(int32_t head) const {
    const int64_t number = head / lists.heads_per_number;
    const int32_t shift = static_cast<int32_t>((number * lists.head_step + lists.offset) % lists.stride);
    return lists.subtract_offset ? shift : (lists.stride - shift) % lists.stride;
  }

  struct Units {
    ShardLists lists;
    int32_t residue;
    TilePositions rows;

    // What the query blocks of positions [first, last] keep of key blocks [64 word, 64 word + 64).
    __device__ uint64_t Kept(int32_t first, int32_t last, int32_t word) const {
      uint64_t kept = 0;
      for (int32_t query_block = first / kHalfRows; query_block <= last / kHalfRows; ++query_block) {
        const int32_t local_begin = max(0, query_block - lists.local_blocks + 1);
        kept |= LowBits(query_block + 1 - 64 * word) & ~LowBits(local_begin - 64 * word);
        const int32_t distant_begin = lists.max_distance == 0 ? 0 : query_block - lists.max_distance + 1;
        const int32_t behind = (64 * word) % lists.stride;
        int32_t block = 64 * word + (residue >= behind ? residue - behind : residue - behind + lists.stride);
        for (; block < min(local_begin, 64 * word + 64); block += lists.stride) {
          if (block >= distant_begin) kept |= uint64_t{1} << (block - 64 * word);
        }
      }
      return kept;
    }

    __device__ KeptUnits operator()(int32_t word) const {
      const int32_t middle = rows.first + kHalfRows;
      return {Kept(rows.first, min(middle - 1, rows.last), word), rows.HasLower() ? Kept(middle, rows.last, word) : 0,
              0};
    }
  };

  __device__ Units Open(int32_t head, TilePositions rows) const { return {lists, Residue(head), rows}; }
};

// A warp per pattern and tile: that of the first head with its residue writes for all.
__global__ void __launch_bounds__(kListThreads)
    WriteShardListsKernel(const ShardSource source, const ListShape shape, const ListArrays arrays) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t slot = (static_cast<int64_t>(blockIdx.x) * kListThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  if (slot >= int64_t{shape.num_qo_heads} * shape.num_tiles) return;
  const int32_t head = static_cast<int32_t>(slot / shape.num_tiles);
  const int32_t tile = static_cast<int32_t>(slot % shape.num_tiles);
  const int32_t residue = source.Residue(head);
  bool is_first = true;
  for (int32_t other = lane; other < head; other += 32) is_first = is_first && source.Residue(other) != residue;
  if (!__all_sync(0xffffffffu, is_first)) return;
  const TilePositions rows = PositionsOfTile(shape, tile);
  ListWriter<ShardSource::kUnitShift> writer(rows, arrays.runs + slot * arrays.run_capacity, arrays.columns);
  const ListCounts counts = writer.Write(source.Open(head, rows));
  for (int32_t sharer = head + lane; sharer < shape.num_qo_heads; sharer += 32) {
    if (source.Residue(sharer) != residue) continue;
    for (int32_t sequence = 0; sequence < shape.batch; ++sequence) {
      const int64_t list = (int64_t{sequence} * shape.num_qo_heads + sharer) * shape.num_tiles + tile;
      StoreCounts(arrays, list, slot, counts);
    }
  }
}

}  // namespace

cudaError_t LaunchBlockLists(const BlockLists& lists, const ListShape& shape, const ListArrays& arrays,
                             cudaStream_t stream) {
  return LaunchWriteLists(BlockSource{lists}, shape, arrays, stream);
}

cudaError_t LaunchTileBlockLists(const TileBlockLists& lists, const ListShape& shape, const ListArrays& arrays,
                                 cudaStream_t stream) {
  if (lists.key_block_log2 == 6) return LaunchWriteLists(TileBlockSource<6>{lists}, shape, arrays, stream);
  return LaunchWriteLists(TileBlockSource<7>{lists}, shape, arrays, stream);
}

cudaError_t LaunchStripeLists(const StripeLists& lists, const ListShape& shape, const ListArrays& arrays,
                              cudaStream_t stream) {
  return LaunchWriteLists(StripeSource{lists}, shape, arrays, stream);
}

cudaError_t LaunchShardLists(const ShardLists& lists, const ListShape& shape, const ListArrays& arrays,
                             cudaStream_t stream) {
  const unsigned num_blocks = BlocksOfWarps(int64_t{shape.num_qo_heads} * shape.num_tiles);
  WriteShardListsKernel<<<num_blocks, kListThreads, 0, stream>>>(ShardSource{lists}, shape, arrays);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
