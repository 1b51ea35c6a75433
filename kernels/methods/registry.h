// The list of methods: a new one is a file that defines a function of this shape, and one line here.
#pragma once

#include "kernels/decode_method.h"
#include "kernels/method.h"

#define HEADSCOPE_PREFILL_METHODS(METHOD) \
  METHOD(DensePrefill)                    \
  METHOD(AShape)                          \
  METHOD(VerticalSlash)                   \
  METHOD(BlockSparse)                     \
  METHOD(S2Attention)                     \
  METHOD(SampleAttention)

#define HEADSCOPE_DECODE_METHODS(METHOD) \
  METHOD(DenseDecode)                    \
  METHOD(SparQ)                          \
  METHOD(SlidingWindow)

namespace headscope::kernels {

#define HEADSCOPE_DECLARE(name) const PrefillMethod& name();
HEADSCOPE_PREFILL_METHODS(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE
#define HEADSCOPE_DECLARE(name) const DecodeMethod& name();
HEADSCOPE_DECODE_METHODS(HEADSCOPE_DECLARE)
#undef HEADSCOPE_DECLARE

}  // namespace headscope::kernels
