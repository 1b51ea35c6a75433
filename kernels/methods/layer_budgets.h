// SPDX-License-Identifier: Apache-2.0
// Which tokens of a prompt the KV heads of a layer keep by their scores: how the layer's budget is spread over them
// (AdaKV), whether the second half of a head's choice looks at values as well (CriticalKV), and tokens that stay or go
// together (ChunkKV). Wrappers over any score, and methods that judge the prompt share them.
//
// Sources: Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM Inference, Algorithms 1
// and 2: a layer's budget is shared out by how many of the best scores of all its heads a head has, blended with an
// even share. `allocation=kvpress` is the kvpress library's form of it: a share of its budget by a head's own ranking,
// the rest to the best scores of the layer. CriticalKV: Identify Critical KV Cache in LLM Inference from an Output
// Perturbation Perspective, Algorithm 1: half of a head's budget by the score, the rest by (score + 1e-4) times the
// L1 norm of W_o v. What a method keeps in any case counts in the budget and stands outside of both rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/decode_policy.h"
#include "kernels/method_spec.h"
#include "kernels/status.h"

namespace headscope::kernels::internal {

// `allocation`, `ada_floor` and `critical`. `budget`: the parameter that the floor is a share of.
std::vector<ParameterSpec> HeadBudgetParameters(const std::string& budget);
// The last of them alone, of a score that is the same in all heads, so that there is nothing to spread.
ParameterSpec CriticalParameter();

// As many tokens for every KV head, by nothing but their scores.
bool KeepsByScoresAlone(const ParameterValues& values);
// DecodeMethod::SharesLayerBudget.
bool SharesBudgetOfLayer(const ParameterValues& values);
bool AsksForValueNorms(const ParameterValues& values);
// kUnsupported: the norms that the values ask for are missing.
Status CheckValueNorms(const MethodSpec& spec, const DecodePrompt& prompt, const ParameterValues& values);
// DecodePrompt::value_norms, [KV head][token of the prompt], over the query heads of a KV head; empty: the values do
// not ask for them.
std::vector<std::vector<float>> NormsByHeads(const DecodePrompt& prompt, int32_t sequence,
                                             const ParameterValues& values);

// +infinity: the token is kept in any case, by every KV head of a sequence alike.
bool StaysInAnyCase(float score);

// What each KV head of a sequence keeps, ascending. scores: [KV head][token], larger kept first. norms: as above.
// budget: tokens of a head on average, with what is kept in any case. together: tokens of a chunk, counted from the
// prompt's first one; a chunk has the mean of the scores of those of its tokens that are not kept in any case. unit:
// what the scores have where the source's are 1.
std::vector<std::vector<int32_t>> KeptByHeads(const std::vector<std::vector<float>>& scores,
                                              const std::vector<std::vector<float>>& norms, int64_t budget,
                                              int32_t together, const ParameterValues& values, float unit = 1);

}  // namespace headscope::kernels::internal
