// SPDX-License-Identifier: Apache-2.0
// Methods that are made of a file's contents while the program runs: a mask, or a number per head. Who reads the file
// makes the method and adds it to the registry, where it is found by its name from then on.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Key blocks that blocks of query rows keep, counted in positions of the prompt.
struct BlockMask {
  int32_t block_q = 128, block_k = 128;  // tokens
  int32_t num_heads = 1;                 // 1: of all query heads; else of query head 0 and the next ones of a layer
  int32_t num_rows = 0;                  // blocks of query rows
  std::vector<int64_t> begin = {};       // [num_heads * num_rows + 1], CSR
  std::vector<int32_t> blocks = {};
};

// Keeps what the mask keeps, causally; 64 query rows keep what any of their blocks does. Errors: kInvalidArgument, in
// one sentence that names the field. Select refuses problems with rows or heads that the mask does not have.
Status MakeMaskMethod(const std::string& name, BlockMask mask, std::unique_ptr<PrefillMethod>* method);
// A query head, by its layer's number in the model and its own in the layer.
struct HeadOfModel {
  int32_t layer = 0, head = 0;
  friend auto operator<=>(const HeadOfModel&, const HeadOfModel&) = default;
};

// Keeps what the index keeps, of problems of its own lengths alone. The index is checked (Validate) and causal. Its
// heads are those of `heads`, in that order; without these they are numbered as any layer's, and one stands for all.
Status MakeMaskMethod(const std::string& name, SparseIndex index, const std::vector<HeadOfModel>& heads,
                      std::unique_ptr<PrefillMethod>* method);

// Tokens that a streaming head keeps unless parameters say otherwise: those of the released patterns.
struct StreamingTokens {
  int32_t sink = 128, local = 256;  // 1 to 2^20
};
// DuoAttention (kernels/methods/duo_attention.cpp), for prompts and for decode steps: `values` [num_layers,
// num_kv_heads], row by row.
Status MakeDuoAttention(const std::string& name, int32_t num_layers, int32_t num_kv_heads, std::vector<double> values,
                        StreamingTokens streaming, std::unique_ptr<PrefillMethod>* prefill,
                        std::unique_ptr<DecodeMethod>* decode);

// FindPrefillMethod() and FindMethod() find it by its name, which must be new; PrefillMethods() does not list it. It
// lives as long as the program. Any thread.
const PrefillMethod& AddPrefillMethod(std::unique_ptr<PrefillMethod> method);
// The same of FindDecodeMethod() and DecodeMethods().
const DecodeMethod& AddDecodeMethod(std::unique_ptr<DecodeMethod> method);

}  // namespace headscope::kernels
