// SPDX-License-Identifier: Apache-2.0
// The products of XAttention's estimate by wgmma. See antidiagonal.h.
//
// Two warpgroups with 64 query groups each, against all 256 key groups of the tile. Copies of a chunk of 64 components
// are issued two chunks ahead, behind the barrier that says that both warpgroups' products of the chunk before the last
// are done; the last chunk's still run then, so the tensor cores have work while chunks change.
#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "select/antidiagonal_tiles.cuh"
#include "shared_memory.cuh"
#include "shared_memory.h"
#include "statistics/wgmma.cuh"

namespace headscope::kernels::selection {
namespace {

using Loader = ChunkLoader<8>;
constexpr int kHopperStages = 4;
constexpr int kChunksAhead = 2;
constexpr uint32_t kStageBytes = Loader::kChunkPieces * 16;
constexpr uint32_t kQueryBytes = Loader::kQueryPieces * 16;
constexpr int kHopperSharedBytes = kHopperStages * static_cast<int>(kStageBytes) + statistics::kSwizzleBytes;
static_assert(Loader::kComponents == statistics::kSlabComponents);
// The next tile is known from the chunk behind the second on.
static_assert(kLeastComponents / Loader::kComponents - kChunksAhead >= 2);

// clang-format off
#define HEADSCOPE_FOUR(m, n) "+f"(d[m][n][0]), "+f"(d[m][n][1]), "+f"(d[m][n][2]), "+f"(d[m][n][3])
#define HEADSCOPE_PART(m)                                                                                      \
  HEADSCOPE_FOUR(m, 0), HEADSCOPE_FOUR(m, 1), HEADSCOPE_FOUR(m, 2), HEADSCOPE_FOUR(m, 3), HEADSCOPE_FOUR(m, 4), \
      HEADSCOPE_FOUR(m, 5), HEADSCOPE_FOUR(m, 6), HEADSCOPE_FOUR(m, 7)
#define HEADSCOPE_WGMMA(type)                                                                               \
  asm volatile(                                                                                             \
      "{\n"                                                                                                 \
      ".reg .pred accumulate;\n"                                                                            \
      "setp.ne.b32 accumulate, %130, 0;\n"                                                                  \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {"                                     \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"    \
      "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,"      \
      "%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,"      \
      "%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,"      \
      "%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,"   \
      "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"                                  \
      "}, %128, %129, accumulate, 1, 1, 0, 0;\n"                                                            \
      "}\n"                                                                                                 \
      : HEADSCOPE_PART(0), HEADSCOPE_PART(1), HEADSCOPE_PART(2), HEADSCOPE_PART(3)                          \
      : "l"(a), "l"(b), "r"(accumulate))
// clang-format on

// d = a b^T or, where accumulate is not 0, d += a b^T: 64 rows of a by 256 of b, 16 components. Element [m][n][2 h + c]
// of a thread is row lane / 4 + 8 h of its warp's 16 and row 64 m + 8 n + 2 (lane % 4) + c of b.
template <bool kBf16>
__device__ __forceinline__ void Multiply64x256(WarpScores& d, uint64_t a, uint64_t b, int accumulate) {
  if constexpr (kBf16) {
    HEADSCOPE_WGMMA("bf16");
  } else {
    HEADSCOPE_WGMMA("f16");
  }
}

#undef HEADSCOPE_WGMMA
#undef HEADSCOPE_PART
#undef HEADSCOPE_FOUR

__device__ __forceinline__ void FenceScores(WarpScores& scores) {
  statistics::FenceAccumulators<128>(reinterpret_cast<float(&)[128]>(scores));
}

// Until at most the newest group of products is still under way.
__device__ __forceinline__ void WaitForProductsBeforeLast() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
// What this thread has written to shared memory, copies that have arrived included, is there for the tensor cores.
__device__ __forceinline__ void ShowToTensorCores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <bool kBf16>
__global__ void __launch_bounds__(kProductThreads, 1) AntidiagonalHopperKernel(const AntidiagonalParams p) {
  extern __shared__ uint4 chunks[];
  __shared__ ProductTile tiles[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  if (thread == 0) tiles[0] = TakeTile(p, atomicAdd(p.progress, 1ull));
  __syncthreads();
  ProductTile tile = tiles[0];
  if (tile.list < 0) return;
  // The swizzle counts from multiples of 1024.
  constexpr uint32_t kBelow = statistics::kSwizzleBytes - 1;
  const uint32_t shared = (cuda::SharedAddress(chunks) + kBelow) & ~kBelow;
  const uint64_t queries = statistics::DescribeOperand(shared + static_cast<uint32_t>(warp / 4) * (kQueryBytes / 2));
  const uint64_t keys = statistics::DescribeOperand(shared + kQueryBytes);
  Loader loader(p, shared);
  const int num_chunks = loader.num_chunks();
  loader.Begin(tile);
#pragma unroll
  for (int stage = 0; stage < kChunksAhead; ++stage) loader.Request(stage);

  int stage = 0;
  int next = 1;  // the place of the next tile
  unsigned long long ticket = 0;
  while (true) {
    WarpScores scores;
#pragma unroll 1
    for (int chunk = 0; chunk < num_chunks; ++chunk) {
      cuda::AwaitCopyGroups<kChunksAhead - 1>();
      ShowToTensorCores();
      __syncthreads();
      const uint64_t stage_offset = static_cast<uint64_t>(stage) * (kStageBytes / 16);
      FenceScores(scores);
      statistics::BeginProducts();
#pragma unroll
      for (int step = 0; step < Loader::kComponents / 16; ++step) {
        Multiply64x256<kBf16>(scores, queries + stage_offset + 2 * step, keys + stage_offset + 2 * step, chunk + step);
      }
      statistics::CommitProducts();
      if (thread == 0) {
        if (chunk == 0) ticket = atomicAdd(p.progress, 1ull);
        if (chunk == 1) tiles[next] = TakeTile(p, ticket);
      }
      __syncwarp();
      if (loader.AtEnd()) loader.Begin(tiles[next]);
      loader.Request((stage + kChunksAhead) % kHopperStages);
      stage = (stage + 1) % kHopperStages;
      WaitForProductsBeforeLast();
    }
    statistics::WaitForProducts();
    FenceScores(scores);
    StoreTile<0, 64>(p, tile.list, tile.query_tile * kTileQueryGroups + warp * 16, tile.key_tile * kTileKeyGroups,
                     scores);
    tile = tiles[next];
    next ^= 1;
    if (tile.list < 0) break;
  }
  cuda::LetNextKernelStart();
}

template <bool kBf16>
cudaError_t Launch(const AntidiagonalParams& params, int num_multiprocessors, cudaStream_t stream) {
  cudaError_t error = cudaMemsetAsync(params.progress, 0, sizeof(*params.progress), stream);
  if (error == cudaSuccess) error = AllowSharedMemory(AntidiagonalHopperKernel<kBf16>);
  if (error != cudaSuccess) return error;
  AntidiagonalHopperKernel<kBf16>
      <<<static_cast<unsigned>(num_multiprocessors), kProductThreads, kHopperSharedBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchAntidiagonalHopperBf16(const AntidiagonalParams& params, int num_multiprocessors,
                                         cudaStream_t stream) {
  return Launch<true>(params, num_multiprocessors, stream);
}
cudaError_t LaunchAntidiagonalHopperFp16(const AntidiagonalParams& params, int num_multiprocessors,
                                         cudaStream_t stream) {
  return Launch<false>(params, num_multiprocessors, stream);
}

}  // namespace headscope::kernels::selection
