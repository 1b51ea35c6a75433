// SPDX-License-Identifier: Apache-2.0
// Attention of sequences of several lengths in one call, as serving engines hold them: queries one sequence behind the
// other, keys and values likewise or in pages of a cache that a table names.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Where the sequences lie. All pointers are on the current device, and what they point to is trusted, as lists are.
struct PackedSequences {
  const int32_t* q_begin = nullptr;  // [batch + 1]: queries of sequence s are rows q_begin[s] to q_begin[s + 1] - 1
  const int32_t* k_begin = nullptr;  // [batch + 1]: keys likewise; with a page table their differences alone count
  int32_t total_q = 0;               // rows of q, o and lse; at least q_begin[batch]
  int32_t total_k = 0;               // rows of k and v, without a page table

  // Key c of sequence s is row c % page_size of page page_table[s, c / page_size]; entries behind its last page are not
  // looked at. Null: no pages.
  const int32_t* page_table = nullptr;  // [batch, pages_per_sequence]
  int32_t pages_per_sequence = 0;       // at least what the longest sequence fills
  int32_t page_size = 0;                // keys of a page, a multiple of 16; from 128 on at no cost, smaller ones take
                                        // more copies of fewer keys
  int32_t num_pages = 0;                // pages of k and v
};

// O, LSE and, on request, the largest scores of every sequence on the kept set of its lists, by the kernel of
// AttendCuda: a sequence gets what it would get alone, within rounding (where runs begin at other keys than multiples
// of 32, sums are made in another order).
//
// problem: batch sequences; seq_q and seq_k are those of the longest, first_position 0. q and output.o
// [total_q, num_qo_heads] rows, by head_stride and row_stride; k and v [total_k, num_kv_heads] rows likewise, or
// [num_pages, num_kv_heads, page_size] with the pages batch_stride apart. output.lse and output.row_max fp32
// [num_qo_heads, total_q], natural units, or null. The last query of a sequence stands at its last key, so a sequence
// has at least as many keys as queries. index: lists for seq_q and seq_k, of sequence s those of its own rows and keys
// (packed_index.h makes one); what it has for rows behind the last is not looked at. Where every sequence's index keeps
// everything (KeepsEverything), the packed one's view may say so.
//
// Asynchronous; no host synchronisation; the same bits every time. Memory, NaN and sinks as AttendCuda has them; K and
// V behind a sequence's last key, and rows that no list names, may hold anything.
//
// Errors: those of AttendCuda; kUnsupported, with what it takes: a GPU other than compute capability 9.0, fp32, a
// head_dim other than 64 and 128 or another v_head_dim, tensors that are not aligned to 16 bytes.
Status AttendPackedCuda(const AttentionProblem& problem, const PackedSequences& sequences, const SparseIndexView& index,
                        const AttentionOutput& output, void* stream);

}  // namespace headscope::kernels
