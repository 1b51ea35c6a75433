// SPDX-License-Identifier: Apache-2.0
// A crew: threads of a block that score, select and attend together. A block of SparqKernel is one crew, a block of
// SparqStreamKernel has several, which never wait for each other at a barrier. Crews begin at multiples of their size.
//
// A thread owns some tokens of a span: 8 neighbours in each of kPieces pieces of 8 * kThreads tokens. So whatever
// counts tokens in the order (piece, thread, token) counts them in ascending order.
#pragma once

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

constexpr int kKeysOfPiece = 8;

__device__ __forceinline__ int Lane() {
  return static_cast<int>(threadIdx.x % 32);
}

template <int kCrewThreads>
struct Crew {
  static constexpr int kThreads = kCrewThreads;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kPieces = kSpanTokens / (kThreads * kKeysOfPiece);
  // What is counted by twos of pieces, in the halves of a word, is counted in so many words.
  static constexpr int kPairs = kPieces / 2;
  static_assert(kPieces % 2 == 0);

  __device__ __forceinline__ static int Thread() { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ __forceinline__ static int Warp() { return Thread() / 32; }

  // __syncthreads() of the crew alone; that of the whole block is barrier 0.
  __device__ __forceinline__ static void Barrier() {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + static_cast<int>(threadIdx.x) / kThreads), "n"(kThreads) : "memory");
  }

  // The place in its span of token i of the thread's piece.
  __device__ __forceinline__ static int PlaceInSpan(int piece, int i) {
    return (piece * kThreads + Thread()) * kKeysOfPiece + i;
  }
};

// One value for each of a thread's tokens: a score, what it is ranked by, or a key.
template <typename Value, typename Crew>
using OfTokens = Value[Crew::kPieces][kKeysOfPiece];

template <SparqPath kPath>
using CrewOf = Crew<CrewThreads(kPath)>;

}  // namespace headscope::kernels::decode
