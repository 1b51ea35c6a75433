// SPDX-License-Identifier: Apache-2.0
#include "model/model_session.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "base/progress_meter.h"
#include "model/pass_memory.h"
#include "model/transformer.h"

namespace headscope::model {

struct ModelSession::Impl {
  Impl(const std::string& model_dir, const SessionOptions& the_options, const ProgressFunction& progress,
       const std::stop_token& stop)
      : options(the_options), transformer(OpenTransformer(model_dir, the_options, progress, stop)) {}
  SessionOptions options;
  std::unique_ptr<Transformer> transformer;
  std::vector<float> last_logits;
};

ModelSession::ModelSession(const std::string& model_dir, const SessionOptions& options,
                           const ProgressFunction& progress, const std::stop_token& stop) {
  if (options.chunk_tokens < 0)
    throw UsageError(
        {.field = "chunk", .value = std::to_string(options.chunk_tokens), .problem = "it must not be negative"});
  impl_ = std::make_unique<Impl>(model_dir, options, progress, stop);
}
ModelSession::~ModelSession() = default;

std::vector<float> ModelSession::Feed(std::span<const int32_t> tokens, const ProgressFunction& progress,
                                      const std::stop_token& stop) {
  const auto total = static_cast<int64_t>(tokens.size());
  impl_->transformer->Reserve(impl_->transformer->num_tokens() + total);
  impl_->transformer->BeginPrompt(impl_->transformer->num_tokens() + total);
  const int64_t pass_tokens = impl_->transformer->PassTokens(total);
  ProgressMeter meter("prefill", ProgressUnit::kTokens, total, progress);
  for (int64_t done = 0; done < total;) {
    const int64_t count = std::min(pass_tokens, total - done);
    const bool last = done + count == total;
    std::vector<float> logits =
        impl_->transformer->Forward(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(count)),
                                    last ? LogitsOf::kLastToken : LogitsOf::kNone, nullptr, stop);
    done += count;
    meter.Report(done);
    if (last) impl_->last_logits = std::move(logits);
  }
  return impl_->last_logits;
}

std::vector<float> ModelSession::FeedAllLogits(std::span<const int32_t> tokens, const std::stop_token& stop) {
  std::vector<float> all;
  impl_->transformer->BeginPrompt(impl_->transformer->num_tokens() + static_cast<int64_t>(tokens.size()));
  // All of a long pass's logits would take more memory than the pass itself.
  const auto chosen = static_cast<size_t>(impl_->options.chunk_tokens);
  const size_t pass_tokens = chosen > 0 ? chosen : static_cast<size_t>(kPassTokens);
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = std::min(pass_tokens, tokens.size() - done);
    const std::vector<float> logits =
        impl_->transformer->Forward(tokens.subspan(done, count), LogitsOf::kAllTokens, nullptr, stop);
    all.insert(all.end(), logits.begin(), logits.end());
    done += count;
  }
  const auto vocabulary = static_cast<size_t>(impl_->transformer->config().vocabulary_size);
  if (!all.empty()) impl_->last_logits.assign(all.end() - static_cast<std::ptrdiff_t>(vocabulary), all.end());
  return all;
}

void ModelSession::FeedSteps(std::span<const int32_t> tokens,
                             const std::function<void(size_t index, std::span<const float> logits)>& on_logits,
                             const std::stop_token& stop) {
  // As in Generate.
  impl_->transformer->Reserve(impl_->transformer->num_tokens() + static_cast<int64_t>(tokens.size()));
  for (size_t i = 0; i < tokens.size(); ++i) {
    impl_->last_logits =
        impl_->transformer->Forward(tokens.subspan(i, 1), LogitsOf::kLastToken, /*sink=*/nullptr, stop);
    on_logits(i, impl_->last_logits);
  }
}

std::vector<int32_t> ModelSession::Generate(int64_t max_tokens, int32_t last_token, const std::stop_token& stop) {
  if (impl_->last_logits.empty()) throw std::logic_error("Generate needs tokens that were fed before");
  std::vector<int32_t> generated;
  // A cache that moved under it would lose a method that keeps state the keys it has seen.
  impl_->transformer->Reserve(impl_->transformer->num_tokens() + max_tokens);
  while (static_cast<int64_t>(generated.size()) < max_tokens) {
    const std::vector<float>& logits = impl_->last_logits;
    const auto best = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (best == last_token) break;
    generated.push_back(best);
    impl_->last_logits = impl_->transformer->Forward(std::span(&best, 1), LogitsOf::kLastToken, nullptr, stop);
  }
  return generated;
}

void ModelSession::Rewind(int64_t num_tokens) {
  impl_->transformer->Rewind(num_tokens);
  impl_->last_logits.clear();
}
void ModelSession::Reset() {
  Rewind(0);
}
int64_t ModelSession::num_tokens() const {
  return impl_->transformer->num_tokens();
}
void ModelSession::UseAttention(AttentionBackend* backend) {
  impl_->transformer->UseAttention(backend);
}
const CheckpointSummary& ModelSession::summary() const {
  return impl_->transformer->summary();
}

}  // namespace headscope::model
