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

// Those of the decode methods that name tokens or pages, unweighted, by one step alone: other methods may go on from
// what they choose.
#define HEADSCOPE_DECODE_SELECTORS(METHOD) \
  METHOD(DenseDecode)                      \
  METHOD(SparQ)                            \
  METHOD(SlidingWindow)                    \
  METHOD(LmInfiniteDecode)                 \
  METHOD(ExactTopK)                        \
  METHOD(LowRank)                          \
  METHOD(Quest)

#define HEADSCOPE_DECODE_METHODS(METHOD) \
  HEADSCOPE_DECODE_SELECTORS(METHOD)     \
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

// HEADSCOPE_DECODE_SELECTORS, in that order.
const std::vector<const DecodeMethod*>& DecodeSelectors();

}  // namespace internal
}  // namespace headscope::kernels
