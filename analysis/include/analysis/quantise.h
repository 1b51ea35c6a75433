// SPDX-License-Identifier: Apache-2.0
// What becomes of a head's output when its Q, K and V are stored in few bits (docs/analysis.md, "Quantisation").
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "base/csv_origin.h"
#include "data/trace_reader.h"

namespace headscope::analysis {

enum class NumberFormat { kFp8E4m3, kInt8, kInt4, kMxfp4 };
// Values that share a scale: the tensor of a layer, all its heads together; one head; one component of a head over all
// tokens; one token of a head. Of MXFP4 32 components of a token share one, whatever is asked for.
enum class ScaleGroup { kTensor, kHead, kChannel, kToken, kBlock };

std::span<const NumberFormat> AllNumberFormats();
std::span<const ScaleGroup> ChosenScaleGroups();  // those that a person chooses among

const char* NameOf(NumberFormat format);  // "fp8-e4m3", "int8", "int4", "mxfp4"
const char* NameOf(ScaleGroup group);     // "tensor", "head", "channel", "token", "block"

struct Quantisation {
  NumberFormat format = NumberFormat::kFp8E4m3;
  ScaleGroup group = ScaleGroup::kHead;
  // Vectors are turned by a Hadamard matrix before they are rounded and back after it, which spreads outliers over
  // their components.
  bool hadamard = false;
};

// What a value of `format` rounds to, in units of its scale: to the nearest, ties to even, and to the largest number
// beyond it. (int: symmetric, without the lowest number; fp8-e4m3: up to 448, no infinity; mxfp4: e2m1, up to 6.)
float Rounded(float value, NumberFormat format);
float LargestNumber(NumberFormat format);

// Multiplies each run of the largest power of two that divides `dim` by the normalised Hadamard matrix of that size;
// its own inverse. values [rows, dim], in place.
void TurnByHadamard(std::span<float> values, int32_t dim);

// Rounds `values` [rows, dim] in place and returns the scales: one of a tensor or head, dim of channels, rows of
// tokens, rows * ceil(dim / 32) of blocks. largest: of the group kTensor, the largest magnitude of the layer (turned,
// where `hadamard` says so); else not read.
std::vector<float> RoundTo(const Quantisation& quantisation, float largest, int32_t dim, std::span<float> values);

struct QuantisationRequest {
  std::vector<NumberFormat> formats;
  std::vector<ScaleGroup> groups;  // of the formats but MXFP4
  std::vector<bool> hadamard;      // false, true or both
  bool q = true, k = true, v = true;
  bool all_scales = false;  // those of tokens and blocks, too, are in the result
  int64_t max_rows = 256;   // evenly spaced; 0: every row
  int32_t num_threads = 0;
  std::stop_token stop = {};
  std::function<void(double share)> progress = {};
};

struct QuantisedHead {
  HeadId head;
  Quantisation quantisation;
  int64_t num_rows = 0;
  // Of the output over the looked-at rows, as of a method's (analysis/types/comparison.h).
  double relative_error = 0, max_error = 0, cosine = 1;
  double q_error = 0, k_error = 0, v_error = 0;  // |rounded - x| / |x| of each tensor; 0 where it was left as it is
  double sparsity = 0;  // at a CRA of 0.95, over the same rows: what leaving pairs out would do
  // As RoundTo gives them; those of tokens and blocks, which are made as tokens come, where the request asks for them.
  std::vector<float> q_scales, k_scales, v_scales;
};

// Every head under every setting, heads slowest. Throws BadInputError, CancelledError and as LoadHead.
std::vector<QuantisedHead> QuantiseHeads(const data::TraceReader& trace, const std::vector<HeadId>& heads,
                                         const QuantisationRequest& request);

// Schema headscope-quantisation-1, scales included; CSV has the numbers alone.
std::string QuantisationJson(const std::vector<QuantisedHead>& results, const OriginTexts& origin = {});
std::string QuantisationCsv(const std::vector<QuantisedHead>& results, const CsvOrigin& origin = {});

}  // namespace headscope::analysis
