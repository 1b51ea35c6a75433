// SPDX-License-Identifier: Apache-2.0
#include "known_heads.h"

#include <utility>

#include "analysis/types/printable.h"

namespace headscope::app {

KnownHeads::KnownHeads(StatisticsJob::Post post, std::shared_ptr<MeasuringGate> gate, ui::MemoryBudget* memory,
                       ui::ErrorReply failed)
    : memory_(memory), failed_(std::move(failed)), job_(std::move(post), std::move(gate)) {}

void KnownHeads::Request(std::shared_ptr<OpenedTrace> trace, const std::string& cache_dir,
                         ui::Reply<analysis::HeadStatistics> one, std::function<void()> finished,
                         ui::Reply<ui::ProgressReport> progress) {
  const auto counted = [this, one = std::move(one)](KnownHead head) {
    classes_.Class(&head);
    memory_->SetFixed(&classes_, classes_.bytes());
    one(std::move(head.statistics));
  };
  job_.Start(std::move(trace), cache_dir,
             {.one = counted,
              .finished = std::move(finished),
              .progress = std::move(progress),
              .failed = [this](const std::string& sentence) { failed_(analysis::Printable(sentence)); }});
}

void KnownHeads::Forget() {
  job_.Cancel();
  classes_.Forget();
}

void KnownHeads::CountAsForgotten() {
  memory_->SetFixed(&classes_, 0);
}

}  // namespace headscope::app
