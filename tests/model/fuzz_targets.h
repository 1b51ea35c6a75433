// SPDX-License-Identifier: Apache-2.0
// One entry per untrusted format, in libFuzzer's shape. Each takes any bytes; anything but success or BadInputError is
// a defect.
//
// mutation_test.cpp runs them on thousands of damaged files in every test run; with HEADSCOPE_FUZZERS each is a
// libFuzzer program of its own (docs/trace_format.md, "Fuzzing").
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::model {

// 0: accepted, 1: refused.
int FuzzSafetensors(const uint8_t* data, size_t size);  // a header; the data size is taken from the first eight bytes
// A model.safetensors.index.json, beside a shard that holds the tensors "a" and "b". Aborts where a tensor is in no
// file.
int FuzzIndex(const uint8_t* data, size_t size);
int FuzzConfig(const uint8_t* data, size_t size);
int FuzzTokenizer(const uint8_t* data, size_t size);
int FuzzPieces(const uint8_t* data, size_t size);  // a tokenizer.model
int FuzzRanks(const uint8_t* data, size_t size);   // a list of tokens by rank
int FuzzEnds(const uint8_t* data, size_t size);    // the tokenizer_config.json beside one
// A tokenizer.json, a zero byte, and a text to cut by it: every id must be one of its tokens. Aborts when one is not.
int FuzzWords(const uint8_t* data, size_t size);
// Text of a prompt under the shipped tokenizer: its tokens must spell the very same bytes. Aborts when they do not.
int FuzzPrompt(const uint8_t* data, size_t size);

}  // namespace headscope::model
