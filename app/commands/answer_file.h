// SPDX-License-Identifier: Apache-2.0
// Answers of `headscope eval` as a file, under the column names of the kvpress library's evaluation, so that its
// scripts and tables take them.
#pragma once

#include <string>
#include <vector>

#include "commands/model_attention.h"
#include "eval/evaluate.h"

namespace headscope::app {

// What all answers of a run have in common.
struct AnswerOrigin {
  std::string model;
  std::string device;      // that the model ran on
  std::string written_at;  // in UTC
  const ModelAttention* attention = nullptr;
};

// Refuses (UsageError) a path that ends neither in .csv nor in .json.
void CheckAnswerFile(const std::string& path);
// CSV: a line for each answer, cells as RFC 4180 has them, line ends inside texts kept. JSON: schema
// headscope-answers-1, an object for each. Columns: dataset ("headscope"), data_dir (the length), model, press_name
// (empty where the methods are no press of that library), compression_ratio (as the method was asked for; empty: by
// none), task, context, question, answer_prefix (empty), answer, max_new_tokens, predicted_answer; and of headscope's
// own: attention, score (1: right), device, written_at, version.
std::string AnswerFile(const std::vector<eval::Answer>& answers, const AnswerOrigin& origin, const std::string& path);

}  // namespace headscope::app
