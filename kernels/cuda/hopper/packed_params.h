// SPDX-License-Identifier: Apache-2.0
// What the host hands to the Hopper kernel of packed sequences.
//
// Keys and values are found by their *place*: page * page_rows + row of the page. Without a page table all keys are one
// page, and a sequence's follow each other from k_begin on.
#pragma once

#include <cstdint>

#include "hopper/kernel_params.h"

namespace headscope::kernels::hopper {

constexpr int kPieceRows = 16;  // keys that lie together in any page: what a page's size is a multiple of

struct PackedParams : KernelParams {
  CUtensorMap k_pieces, v_pieces;  // boxes of kPieceRows
  GatherSource o_rows;             // the output once more, for rows that fill no box of their own
  const int32_t* q_begin;          // [batch + 1]
  const int32_t* k_begin;          // [batch + 1]
  const int32_t* page_table;       // [batch, pages_per_sequence] or null
  int32_t pages_per_sequence;
  int32_t page_rows;  // without a page table: of all sequences
  Divisor by_page_rows;
  int32_t num_places;  // the first place behind all pages, where the copy engine finds zeros
  int32_t total_q;     // rows of q, o and lse
};

}  // namespace headscope::kernels::hopper
