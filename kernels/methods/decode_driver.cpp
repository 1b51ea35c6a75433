// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode_driver.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "index/checks.h"

namespace headscope::kernels {
namespace {

// The policy of a method that chooses by one step alone.
class StepByStep final : public DecodePolicy {
 public:
  StepByStep(const DecodeMethod& method, const ParameterValues& values) : method_(method), values_(values) {}

  Status Begin(const DecodePrompt&, const RunOptions&, DecodeEvictions*) override { return {}; }

  // A static pattern names places of the whole sequence, and what lies before the step's tokens is dropped.
  Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
              DecodeEvictions*) override {
    if (!method_.spec().IsStatic()) return method_.Select(step.problem, values_, options, selection);
    AttentionProblem whole = step.problem;  // its K and V are not looked at
    whole.seq_k += step.first_token;
    whole.first_position += step.first_token;
    Status status = method_.Select(whole, values_, options, selection);
    // The mean of the sizes of a key and a value: both are dropped.
    const int32_t head_dim = (whole.head_dim + whole.ValueDim()) / 2;
    if (status.ok()) DropTokensBefore(step.first_token, whole.seq_k, head_dim, selection);
    return status;
  }

 private:
  const DecodeMethod& method_;
  const ParameterValues values_;
};

int64_t NumLists(const AttentionProblem& problem) {
  return int64_t{problem.batch} * problem.num_kv_heads;
}

// What needs memory, as a status.
template <typename Work>
Status InMemory(const DecodeMethod& method, const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for a step of decode method " + method.spec().name +
                                          " and what it keeps; take fewer tokens or heads"};
  }
}

}  // namespace

Status DecodeMethod::Select(const AttentionProblem&, const ParameterValues&, const RunOptions&,
                            DecodeSelection*) const {
  return {StatusCode::kUnsupported, "decode method " + spec().name + " chooses by the steps before as well"};
}

ParameterValues DecodeMethod::WithCandidates(ParameterValues values, int tokens) const {
  for (const ParameterSpec& parameter : spec().parameters) {
    if (parameter.role == ParameterRole::kBudget) values.Set(spec(), parameter.name, tokens);
  }
  return values;
}

std::optional<double> DecodeMethod::AskedCompression(const ParameterValues& values) const {
  for (const ParameterSpec& parameter : spec().parameters) {
    if (!parameter.instead_of.empty() && values.Real(parameter.name) > 0) return values.Real(parameter.name);
  }
  return {};
}

std::unique_ptr<DecodePolicy> DecodeMethod::NewPolicy(const ParameterValues& values) const {
  return std::make_unique<StepByStep>(*this, values);
}

// K and V of a sequence, contiguous, with NaN in evicted rows.
class DecodeDriver::ShownCache {
 public:
  // Copies the step's tokens that are not there yet. May throw std::bad_alloc.
  void Append(const DecodeStep& step, int32_t capacity) {
    const AttentionProblem& problem = step.problem;
    const int32_t end = step.first_token + problem.seq_k;
    if (rows_ == 0) {
      first_ = end_ = step.first_token;
      lists_ = NumLists(problem);
      k_.row_bytes = problem.head_dim * SizeOf(problem.dtype);
      v_.row_bytes = problem.ValueDim() * SizeOf(problem.dtype);
    }
    if (end - first_ > rows_) Grow(std::max({int64_t{end - first_}, int64_t{capacity} - first_, 2 * rows_}));
    CopyRows(problem, problem.k, step.first_token, end, k_);
    CopyRows(problem, problem.v, step.first_token, end, v_);
    end_ = std::max(end_, end);
  }

  void Evict(int64_t list, int32_t token) {
    if (token < first_ || token >= end_) return;  // before the first window that was shown
    for (Rows* rows : {&k_, &v_})
      std::memset(rows->bytes.data() + At(*rows, list, token), 0xff, static_cast<size_t>(rows->row_bytes));  // NaN
  }

  void Show(DecodeStep* step) const {
    const auto view = [&](const Rows& rows, int64_t row) {
      const int64_t head = rows_ * row, batch = head * step->problem.num_kv_heads;
      return StridedTensor<const void>{rows.bytes.data() + At(rows, 0, step->first_token), batch, head, row};
    };
    step->problem.k = view(k_, step->problem.head_dim);
    step->problem.v = view(v_, step->problem.ValueDim());
  }

 private:
  struct Rows {
    std::vector<std::byte> bytes;  // [lists, rows], each row_bytes long
    int64_t row_bytes = 0;
  };

  size_t At(const Rows& rows, int64_t list, int32_t token) const {
    return static_cast<size_t>((list * rows_ + token - first_) * rows.row_bytes);
  }

  void Grow(int64_t rows) {
    std::vector<std::byte> grown[2];
    for (int i = 0; i < 2; ++i) {
      const Rows& old = i == 0 ? k_ : v_;
      grown[i].resize(static_cast<size_t>(lists_ * rows * old.row_bytes));
      for (int64_t list = 0; list < lists_ && rows_ > 0; ++list) {
        std::memcpy(grown[i].data() + list * rows * old.row_bytes, old.bytes.data() + list * rows_ * old.row_bytes,
                    static_cast<size_t>(rows_ * old.row_bytes));
      }
    }
    k_.bytes = std::move(grown[0]);
    v_.bytes = std::move(grown[1]);
    rows_ = rows;
  }

  // Tokens [end_, end) of one tensor of the problem, whose row 0 is token `first`.
  void CopyRows(const AttentionProblem& problem, const StridedTensor<const void>& from, int32_t first, int32_t end,
                Rows& to) const {
    for (int64_t list = 0; list < lists_; ++list) {
      const int64_t head =
          list / problem.num_kv_heads * from.batch_stride + list % problem.num_kv_heads * from.head_stride;
      for (int32_t token = std::max(end_, first); token < end; ++token) {
        const int64_t row = head + int64_t{token - first} * from.row_stride;
        std::memcpy(to.bytes.data() + At(to, list, token),
                    static_cast<const std::byte*>(from.data) + row * SizeOf(problem.dtype),
                    static_cast<size_t>(to.row_bytes));
      }
    }
  }

  int64_t lists_ = 0, rows_ = 0;
  int32_t first_ = 0, end_ = 0;  // tokens that are there
  Rows k_, v_;
};

DecodeDriver::DecodeDriver(const DecodeMethod& method, const ParameterValues& values)
    : method_(method), values_(values), policy_(method.NewPolicy(values)) {}

DecodeDriver::~DecodeDriver() = default;

Status DecodeDriver::Begin(const DecodePrompt& prompt, const RunOptions& options) {
  capacity_ = prompt.capacity;
  end_ = prompt.first_token + prompt.cache.seq_k;
  leaving_ = {};
  shown_ = nullptr;
  return InMemory(method_, [&]() -> Status {
    evicted_.assign(static_cast<size_t>(NumLists(prompt.cache)), {});
    DecodeEvictions evictions;
    dense_ = method_.IsDenseLayer(values_, prompt.cache.layer);
    if (dense_) return {};
    if (Status status = policy_->Begin(prompt, options, &evictions); !status.ok()) return status;
    return CheckEvictions(evictions, end_);
  });
}

Status DecodeDriver::Append(const DecodeStep& step, const RunOptions& options) {
  const int32_t end = step.first_token + step.problem.seq_k;
  if (!AnyOrder() && end <= end_) {
    return {StatusCode::kInvalidArgument, "decode method " + method_.spec().name + ": the step's token is " +
                                              std::to_string(end - 1) + " and the newest was " +
                                              std::to_string(end_ - 1) + "; begin again to go back"};
  }
  end_ = end;
  if (dense_) return {};
  if (shown_ != nullptr || !leaving_.tokens().empty()) {
    Status status = InMemory(method_, [&]() -> Status {
      if (shown_ == nullptr) shown_ = std::make_unique<ShownCache>();
      shown_->Append(step, capacity_);
      return {};
    });
    if (!status.ok()) return status;
    for (const auto& [list, token] : leaving_.tokens()) shown_->Evict(list, token);
    leaving_ = {};
  }
  return InMemory(method_, [&] { return policy_->Append(Shown(step), options); });
}

Status DecodeDriver::Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection) {
  if (dense_) {
    const DecodeMethod& dense = DecodeBaseline();
    return dense.Select(step.problem, ParameterValues(dense.spec()), options, selection);
  }
  return InMemory(method_, [&]() -> Status {
    DecodeEvictions evictions;
    DecodeSelection made;
    if (Status status = policy_->Step(Shown(step), options, &made, &evictions); !status.ok()) return status;
    if (Status status = CheckSelection(step, made); !status.ok()) return status;
    if (Status status = CheckEvictions(evictions, end_); !status.ok()) return status;
    *selection = std::move(made);
    return {};
  });
}

Status DecodeDriver::Attended(const DecodeStep& step, const DecodeSelection& selection, const AttentionOutput& output,
                              const RunOptions& options) {
  if (dense_) return {};
  return InMemory(method_, [&]() -> Status {
    DecodeEvictions evictions;
    Status status = policy_->Attended(Shown(step), selection, output, options, &evictions);
    return status.ok() ? CheckEvictions(evictions, end_) : status;
  });
}

void DecodeDriver::End() {
  if (!dense_) policy_->End();
  shown_ = nullptr;
}

DecodeStep DecodeDriver::Shown(const DecodeStep& step) const {
  DecodeStep shown = step;
  if (shown_ != nullptr) shown_->Show(&shown);
  return shown;
}

// Notes them, to be gone at the next Append().
Status DecodeDriver::CheckEvictions(const DecodeEvictions& evictions, int32_t end) {
  if (!evictions.tokens().empty() && AnyOrder()) {
    return {StatusCode::kInvalidArgument, "decode method " + method_.spec().name +
                                              " evicts, so it must say that it needs history: its steps have an order"};
  }
  for (const auto& [list, token] : evictions.tokens()) {
    if (list < 0 || list >= static_cast<int64_t>(evicted_.size()) || token < 0 || token >= end) {
      return {StatusCode::kInvalidArgument, "decode method " + method_.spec().name + " evicts token " +
                                                std::to_string(token) + " of list " + std::to_string(list) +
                                                ", which the cache does not have"};
    }
    std::vector<bool>& evicted = evicted_[static_cast<size_t>(list)];
    if (evicted.size() <= static_cast<size_t>(token)) evicted.resize(static_cast<size_t>(std::max(end, capacity_)));
    evicted[static_cast<size_t>(token)] = true;
    leaving_.Evict(list, token);
  }
  return {};
}

Status DecodeDriver::CheckSelection(const DecodeStep& step, const DecodeSelection& selection) const {
  const auto holds = [](const std::vector<bool>& evicted) { return !evicted.empty(); };
  if (std::none_of(evicted_.begin(), evicted_.end(), holds)) return {};  // the executor checks the rest
  if (Status status = internal::CheckSelectionOfProblem(step.problem, selection, true); !status.ok()) return status;
  const int64_t size = selection.page_size;
  const int64_t row_length = static_cast<int64_t>(selection.pages.size()) * size;
  for (size_t list = 0; list < evicted_.size(); ++list) {
    int64_t number = selection.page_begin[list] * size;
    for (const int32_t token : TokensOfList(selection, static_cast<int64_t>(list), step.problem.seq_k)) {
      const auto at = static_cast<size_t>(int64_t{step.first_token} + token);
      bool kept = selection.weights.empty();
      for (int64_t row = 0; row < selection.weight_rows && !kept; ++row)
        kept = selection.weights[static_cast<size_t>(row * row_length + number)] > 0;
      ++number;
      if (!kept || at >= evicted_[list].size() || !evicted_[list][at]) continue;
      return {StatusCode::kInvalidArgument, "decode method " + method_.spec().name + " asks for token " +
                                                std::to_string(at) + " of list " + std::to_string(list) +
                                                ", which it has evicted"};
    }
  }
  return {};
}

}  // namespace headscope::kernels
