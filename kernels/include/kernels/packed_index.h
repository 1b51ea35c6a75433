// SPDX-License-Identifier: Apache-2.0
// One index of sequences of several lengths, as AttendPackedCuda takes it.
#pragma once

#include <span>

#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Joins valid indices of one sequence each, of the same heads, tile_rows and rule: *packed has the shape of the longest
// and a sequence's own lists; rows behind its last keep nothing. Host pointers. Every sequence's last row stands at its
// last key (first_position + seq_q is seq_k). *packed is a shape for executors that know each sequence's length, and no
// valid index of its own: positions in it are each sequence's. Cost: linear in entries and lists.
//
// Errors: kInvalidArgument, naming the sequence and the field.
Status PackIndices(std::span<const SparseIndexView> sequences, SparseIndex* packed);

}  // namespace headscope::kernels
