// SPDX-License-Identifier: Apache-2.0
// The list of methods: a new one is a file that defines a function of this shape, and one line here. A method whose
// choice a GPU makes as well names on its line with BOTH the function Status(Call*) that stands for it there: a prefill
// method a selector under kernels/cuda/select, a decode method the maker of its steps under kernels/cuda/decode. One
// without has its line with CPU, selects there, and is attended on the GPU.
#pragma once

#include <vector>

#include "kernels/decode_method.h"
#include "kernels/method.h"

// What a build of its own adds (tests/extension): nothing here.
#ifndef HEADSCOPE_MORE_PREFILL_METHODS
#define HEADSCOPE_MORE_PREFILL_METHODS(CPU, BOTH)
#endif
#ifndef HEADSCOPE_MORE_DECODE_METHODS
#define HEADSCOPE_MORE_DECODE_METHODS(CPU, BOTH)
#endif

#define HEADSCOPE_PREFILL_METHODS(CPU, BOTH)   \
  BOTH(DensePrefill, SelectDense)              \
  BOTH(AShape, SelectAShape)                   \
  BOTH(VerticalSlash, SelectVerticalSlash)     \
  BOTH(BlockSparse, SelectBlockSparse)         \
  BOTH(S2Attention, SelectS2Attention)         \
  BOTH(SampleAttention, SelectSampleAttention) \
  CPU(StreamingLlm)                            \
  CPU(SlidingWindowPrefill)                    \
  CPU(LmInfinite)                              \
  CPU(BigBird)                                 \
  CPU(InfLlmPrefill)                           \
  BOTH(FlexPrefill, SelectFlexPrefill)         \
  BOTH(XAttention, SelectXAttention)           \
  BOTH(SpargeAttn, SelectSpargeAttn)           \
  CPU(Moba)                                    \
  CPU(Nsa)                                     \
  CPU(InfLlmV2)                                \
  CPU(HyperAttention)                          \
  CPU(HashSparse)                              \
  CPU(StaticIndex)                             \
  CPU(OracleTopK)                              \
  CPU(OracleBlocks)                            \
  CPU(OracleTopP)                              \
  HEADSCOPE_MORE_PREFILL_METHODS(CPU, BOTH)

#define HEADSCOPE_DECODE_METHODS(CPU, BOTH) \
  CPU(DenseDecode)                          \
  BOTH(SparQ, SparqSteps)                   \
  CPU(SlidingWindow)                        \
  CPU(LmInfiniteDecode)                     \
  CPU(ExactTopK)                            \
  CPU(LowRank)                              \
  BOTH(Quest, QuestSteps)                   \
  CPU(Twilight)                             \
  CPU(VAttention)                           \
  CPU(MagicPig)                             \
  CPU(LServe)                               \
  CPU(InfLlm)                               \
  CPU(TidalDecode)                          \
  CPU(ThinK)                                \
  CPU(H2o)                                  \
  CPU(Tova)                                 \
  CPU(SnapKv)                               \
  CPU(PyramidKv)                            \
  CPU(ChunkKv)                              \
  CPU(Knorm)                                \
  CPU(KeyDiff)                              \
  CPU(LagKv)                                \
  CPU(ExpectedAttention)                    \
  CPU(CurDkv)                               \
  HEADSCOPE_MORE_DECODE_METHODS(CPU, BOTH)

namespace headscope::kernels {
namespace selection {

struct Call;  // kernels/cuda/select/selection_call.h

#define HEADSCOPE_NOTHING(name)
#define HEADSCOPE_DECLARE_SELECTOR(name, selector) Status selector(Call*);
HEADSCOPE_PREFILL_METHODS(HEADSCOPE_NOTHING, HEADSCOPE_DECLARE_SELECTOR)
#undef HEADSCOPE_DECLARE_SELECTOR
#undef HEADSCOPE_NOTHING

}  // namespace selection

namespace fused {

struct Call;  // kernels/cuda_decode_step.h

#define HEADSCOPE_NOTHING(name)
#define HEADSCOPE_DECLARE_MAKER(name, maker) Status maker(Call*);
HEADSCOPE_DECODE_METHODS(HEADSCOPE_NOTHING, HEADSCOPE_DECLARE_MAKER)
#undef HEADSCOPE_DECLARE_MAKER
#undef HEADSCOPE_NOTHING

}  // namespace fused

#define HEADSCOPE_DECLARE(name, ...) const PrefillMethod& name();
HEADSCOPE_PREFILL_METHODS(HEADSCOPE_DECLARE, HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE
#define HEADSCOPE_DECLARE(name, ...) const DecodeMethod& name();
HEADSCOPE_DECODE_METHODS(HEADSCOPE_DECLARE, HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

namespace internal {

// Those with the trait gives_candidates, in the list's order. For the spec of the method that `asking` makes, which is
// not looked at: its own making may not wait for itself. It is the only method that asks.
std::vector<const DecodeMethod*> CandidateSelectors(const DecodeMethod& (*asking)());

}  // namespace internal
}  // namespace headscope::kernels
