// SPDX-License-Identifier: Apache-2.0
// The list of methods: a new one is a file that defines a function of this shape, and one line here. A prefill method
// that has a selector for GPUs too, a function Status(Call*) under kernels/cuda/select, names it on its line with
// BOTH; one without has its line with CPU, selects there, and is attended on the GPU.
#pragma once

#include <vector>

#include "kernels/decode_method.h"
#include "kernels/method.h"

// What a build of its own adds (tests/extension): nothing here.
#ifndef HEADSCOPE_MORE_PREFILL_METHODS
#define HEADSCOPE_MORE_PREFILL_METHODS(CPU, BOTH)
#endif
#ifndef HEADSCOPE_MORE_DECODE_METHODS
#define HEADSCOPE_MORE_DECODE_METHODS(METHOD)
#endif

#define HEADSCOPE_PREFILL_METHODS(CPU, BOTH)   \
  BOTH(DensePrefill, SelectDense)              \
  BOTH(AShape, SelectAShape)                   \
  BOTH(VerticalSlash, SelectVerticalSlash)     \
  BOTH(BlockSparse, SelectBlockSparse)         \
  BOTH(S2Attention, SelectS2Attention)         \
  BOTH(SampleAttention, SelectSampleAttention) \
  CPU(StreamingLlm)                            \
  CPU(LmInfinite)                              \
  CPU(BigBird)                                 \
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

#define HEADSCOPE_DECODE_METHODS(METHOD) \
  METHOD(DenseDecode)                    \
  METHOD(SparQ)                          \
  METHOD(SlidingWindow)                  \
  METHOD(LmInfiniteDecode)               \
  METHOD(ExactTopK)                      \
  METHOD(LowRank)                        \
  METHOD(Quest)                          \
  METHOD(Twilight)                       \
  METHOD(VAttention)                     \
  METHOD(MagicPig)                       \
  METHOD(LServe)                         \
  METHOD(InfLlm)                         \
  METHOD(TidalDecode)                    \
  METHOD(ThinK)                          \
  METHOD(H2o)                            \
  METHOD(Tova)                           \
  METHOD(SnapKv)                         \
  METHOD(PyramidKv)                      \
  METHOD(ChunkKv)                        \
  METHOD(Knorm)                          \
  METHOD(KeyDiff)                        \
  METHOD(LagKv)                          \
  METHOD(ExpectedAttention)              \
  METHOD(CurDkv)                         \
  HEADSCOPE_MORE_DECODE_METHODS(METHOD)

namespace headscope::kernels {
namespace selection {

struct Call;  // kernels/cuda/select/selection_call.h

#define HEADSCOPE_NOTHING(name)
#define HEADSCOPE_DECLARE_SELECTOR(name, selector) Status selector(Call*);
HEADSCOPE_PREFILL_METHODS(HEADSCOPE_NOTHING, HEADSCOPE_DECLARE_SELECTOR)
#undef HEADSCOPE_DECLARE_SELECTOR
#undef HEADSCOPE_NOTHING

}  // namespace selection

#define HEADSCOPE_DECLARE(name, ...) const PrefillMethod& name();
HEADSCOPE_PREFILL_METHODS(HEADSCOPE_DECLARE, HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE
#define HEADSCOPE_DECLARE(name) const DecodeMethod& name();
HEADSCOPE_DECODE_METHODS(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

namespace internal {

// Those with the trait gives_candidates, in the list's order. For the spec of the method that `asking` makes, which is
// not looked at: its own making may not wait for itself. It is the only method that asks.
std::vector<const DecodeMethod*> CandidateSelectors(const DecodeMethod& (*asking)());

}  // namespace internal
}  // namespace headscope::kernels
