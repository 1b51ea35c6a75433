// SPDX-License-Identifier: Apache-2.0
#include "commands/head_notes.h"

#include <utility>

#include "support/messages.h"

namespace headscope::app {

void HeadNotes::Look(const analysis::HeadTensors& head, const data::TraceReader& trace) {
  ++num_heads_;
  if (head.first_token > 0) {
    AddOnce("cut " + trace.path(),
            trace.path() + " was cut from a longer trace at its token " + std::to_string(head.first_token) +
                ": masses are shares of what its rows attend to in all, and the part of it that lies on the tokens "
                "before the cut is outside_mass");
  }
  if (!said_.contains("lse " + trace.path())) {
    if (std::string wrong = analysis::DescribeWrongLse(head, trace); !wrong.empty())
      AddOnce("lse " + trace.path(), std::move(wrong));
  }
  OnCpu(head.gpu_refusal);
}

void HeadNotes::OnCpu(const std::string& why) {
  if (!why.empty() && num_refused_++ == 0) first_refusal_ = why;
}

void HeadNotes::PartOnCpu(const std::string& note) {
  if (!note.empty()) AddOnce("part on the CPU", note);
}

void HeadNotes::Append(const HeadNotes& others) {
  for (const std::string& subject : others.in_order_) AddOnce(subject, others.said_.at(subject));
  if (num_refused_ == 0) first_refusal_ = others.first_refusal_;
  num_refused_ += others.num_refused_;
  num_heads_ += others.num_heads_;
}

void HeadNotes::AddOnce(const std::string& subject, std::string sentence) {
  if (said_.emplace(subject, std::move(sentence)).second) in_order_.push_back(subject);
}

void HeadNotes::Print() const {
  for (const std::string& subject : in_order_) Say(said_.at(subject));
  if (num_refused_ > 0) {
    Say("computed on the CPU: " + std::to_string(num_refused_) + " of " + std::to_string(num_heads_) +
        (num_heads_ == 1 ? " head; " : " heads; ") + first_refusal_);
  }
}

}  // namespace headscope::app
