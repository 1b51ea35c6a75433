// SPDX-License-Identifier: Apache-2.0
// What one decode step attends to: any decode method makes one, and one executor per device runs it
// (kernels/cpu_executor.h, kernels/cuda_decode.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace headscope::kernels {

// What a decode method keeps for one query token per sequence: a list of pages per (batch, KV head), a weight per token
// where the method samples, and SparQ's mean-value term. With s_i the scaled (and capped) score of kept token i, and
// w_i its weight, a query head's
//   o = alpha * (sum_i w_i exp(s_i) v_i) / (sum_i w_i exp(s_i)) + (1 - alpha) * mean_value,  lse = ln sum_i w_i
//   exp(s_i)
// and o is (1 - alpha) * mean_value, lse -inf, where nothing is kept.
struct DecodeSelection {
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  // Page p holds the tokens from p * page_size on, page_size of them, or, at the end of the cache, those that there
  // are. 1: a page is a token.
  int32_t page_size = 1;
  std::vector<int64_t> page_begin;  // [batch * num_kv_heads + 1], CSR
  std::vector<int32_t> pages;       // strictly increasing inside a list
  // [weight_rows, pages.size() * page_size], finite and >= 0; empty: every weight is 1. Token t of pages[i] has number
  // i * page_size + t of a row. A sampling method gives the inverse of the probability with which it took the token; a
  // token of weight 0 counts as not kept, though its key and value may be read. weight_rows is 1, where the query heads
  // of a KV head share the weights, or their number, a row for each.
  std::vector<float> weights;
  int32_t weight_rows = 1;
  // Empty: alpha is 1 and there is no mean-value term.
  std::vector<float> alpha;       // [batch, num_qo_heads], in [0, 1]
  std::vector<float> mean_value;  // [batch, num_kv_heads, v_head_dim]
  // Keys of the tokens below this one have lost components, and their scores are of those that are left: `components`,
  // strictly increasing inside a list, one or more. 0: no key has, and there are no lists. Executors on the CPU take
  // it; those on a GPU refuse it.
  int32_t components_end = 0;
  std::vector<int64_t> component_begin;  // [batch * num_kv_heads + 1], CSR
  std::vector<int32_t> components;       // each below head_dim
  // Elements of K, V and the mean moved per KV head by selection and attention (SparQ, equation 11, and its
  // equivalents), for the cost columns.
  int64_t elements_moved = 0;
  // Of these, what was read to choose alone; 0 where a method does not tell it apart.
  int64_t elements_to_choose = 0;
  // What the method chose here for higher layers, while this one attends to more (TidalDecode); null: nothing. No
  // executor looks at it.
  std::shared_ptr<const DecodeSelection> chosen;
};

// Of a valid selection over a cache of seq_k tokens: how many tokens list `list` (batch * num_kv_heads + KV head)
// names, and all lists together.
int64_t NumTokens(const DecodeSelection& selection, int64_t list, int32_t seq_k);
int64_t NumTokens(const DecodeSelection& selection, int32_t seq_k);
// Of them, how many of the list lie below token `end`, at most seq_k.
int64_t NumTokensBelow(const DecodeSelection& selection, int64_t list, int32_t end);

// The tokens of a list, ascending, whatever the page size.
std::vector<int32_t> TokensOfList(const DecodeSelection& selection, int64_t list, int32_t seq_k);

// Whether every list names every token of the cache, unweighted, with whole keys and without a mean-value term: dense
// attention.
bool IsDense(const DecodeSelection& selection, int32_t seq_k);

// The part of a selection that query head `head` of its one sequence has: one query head, one KV head.
DecodeSelection SelectionOfHead(const DecodeSelection& selection, int32_t head);

// Of such a selection of one query head: its tokens, ascending, without those of weight 0.
std::vector<int32_t> KeptTokens(const DecodeSelection& of_head, int32_t seq_k);

// Makes a selection over the tokens of a whole sequence, seq_k of them, one over its tokens from `first` on, counted
// from there: what lies before them is dropped. Pages stay pages where they begin at `first`, and become tokens
// otherwise. elements_moved falls by the dropped rows of K and V, of the lists on average.
void DropTokensBefore(int32_t first, int32_t seq_k, int32_t head_dim, DecodeSelection* selection);

}  // namespace headscope::kernels
