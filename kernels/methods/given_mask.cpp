// SPDX-License-Identifier: Apache-2.0
// Masks that somebody else made: blocks, as FlexAttention's, or a whole index.
#include <algorithm>
#include <map>
#include <utility>

#include "head_groups.h"
#include "kernels/file_methods.h"
#include "kernels/index_heads.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kMaskRows = 64;

MethodSpec GivenMaskSpec(const std::string& name) {
  return {
      .name = name,
      .title = "Mask from a file",
      .family = "given mask",
      .paper = "none: the file's",
      .summary = "Keeps what the file says, and nothing to the right of the diagonal.",
      .always_keeps = "what the file says",
      .selection_cost = "nothing",
      .phase = Phase::kPrefill,
  };
}

std::string Refused(const MethodSpec& spec, const std::string& field, int64_t value, const std::string& allowed) {
  return spec.name + ": " + field + " is " + std::to_string(value) + ", " + allowed;
}

class BlockMaskMethod final : public internal::PrefillSelector {
 public:
  BlockMaskMethod(const std::string& name, BlockMask mask)
      : PrefillSelector(GivenMaskSpec(name)), mask_(std::move(mask)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues&, const RunOptions& options,
                SparseIndex* index) const override {
    const int64_t rows = int64_t{mask_.num_rows} * mask_.block_q;
    if (int64_t{problem.first_position} + problem.seq_q > rows) {
      return {StatusCode::kInvalidArgument,
              Refused(spec(), "the problem's last position", int64_t{problem.first_position} + problem.seq_q - 1,
                      "and the mask has rows for " + std::to_string(rows) + ": take a mask of that length")};
    }
    if (mask_.num_heads > 1 && problem.first_qo_head + problem.num_qo_heads > mask_.num_heads) {
      return {StatusCode::kInvalidArgument,
              Refused(spec(), "the problem's last query head", problem.first_qo_head + problem.num_qo_heads - 1,
                      "and the mask has " + std::to_string(mask_.num_heads) + " heads: take one of the model's")};
    }
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i)
            AddLists(problem, mask_.num_heads > 1 ? problem.first_qo_head + group.first_head + i : 0, builder);
        },
        index);
  }

  void AddLists(const AttentionProblem& problem, int32_t head, SparseIndexBuilder* builder) const {
    for (int32_t tile = 0; tile < problem.seq_q; tile += 2 * kMaskRows) {
      for (int32_t half = 0; half < 2; ++half) {
        const int32_t begin = tile + half * kMaskRows, end = std::min(begin + kMaskRows, problem.seq_q);
        if (begin >= end) break;
        const uint32_t flag = half == 0 ? kRunUpperHalf : kRunLowerHalf;
        const int32_t last = (problem.first_position + end - 1) / mask_.block_q;
        for (int32_t row = (problem.first_position + begin) / mask_.block_q; row <= last; ++row) {
          const auto list = static_cast<size_t>(int64_t{head} * mask_.num_rows + row);
          for (int64_t at = mask_.begin[list]; at < mask_.begin[list + 1]; ++at) {
            const int64_t key = int64_t{mask_.blocks[static_cast<size_t>(at)]} * mask_.block_k;
            builder->AddRange(key, key + mask_.block_k, flag);
          }
        }
      }
      builder->FinishList();
    }
  }

  const BlockMask mask_;
};

class IndexMethod final : public internal::PrefillSelector {
 public:
  IndexMethod(const std::string& name, SparseIndex index, const std::vector<HeadOfModel>& heads)
      : PrefillSelector(GivenMaskSpec(name)), index_(std::move(index)) {
    for (const HeadOfModel& head : heads) places_.emplace(head, static_cast<int32_t>(places_.size()));
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues&, const RunOptions&,
                SparseIndex* index) const override {
    const std::pair<const char*, std::pair<int64_t, int64_t>> shapes[] = {
        {"seq_q", {problem.seq_q, index_.seq_q}},
        {"seq_k", {problem.seq_k, index_.seq_k}},
        {"first_position", {problem.first_position, index_.first_position}},
        {"batch", {problem.batch, index_.batch}}};
    for (const auto& [field, both] : shapes) {
      if (both.first != both.second) {
        // The first rows of a longer prompt are a problem of the index's shape.
        const bool can_be_cut = problem.seq_k > index_.seq_k && problem.batch == index_.batch;
        const std::string cut = can_be_cut ? ", or export the first " + std::to_string(index_.seq_k) +
                                                 " tokens of this trace and run it there"
                                           : "";
        return {StatusCode::kInvalidArgument, Refused(spec(), std::string("the problem's ") + field, both.first,
                                                      "and the index was made for " + std::to_string(both.second) +
                                                          ": take one of that shape" + cut)};
      }
    }
    std::vector<int32_t> heads;
    for (int32_t head = problem.first_qo_head; head < problem.first_qo_head + problem.num_qo_heads; ++head) {
      Status status = AddPlace(problem.layer, head, &heads);
      if (!status.ok()) return status;
    }
    *index = TakeHeads(index_, heads);
    return {};
  }

  Status AddPlace(int32_t layer, int32_t head, std::vector<int32_t>* heads) const {
    if (places_.empty()) {
      const bool shared = index_.num_qo_heads == 1;
      if (!shared && head >= index_.num_qo_heads) {
        return {StatusCode::kInvalidArgument, Refused(spec(), "a query head of the problem", head,
                                                      "and the index has " + std::to_string(index_.num_qo_heads) +
                                                          " heads: take one of the model's")};
      }
      heads->push_back(shared ? 0 : head);
      return {};
    }
    const auto found = places_.find({layer, head});
    if (found == places_.end()) {
      return {StatusCode::kInvalidArgument, spec().name + ": the index has no lists of layer " + std::to_string(layer) +
                                                "'s query head " + std::to_string(head) + " among its " +
                                                std::to_string(places_.size()) +
                                                " heads: take one that was made of this head as well"};
    }
    heads->push_back(found->second);
    return {};
  }

  const SparseIndex index_;
  std::map<HeadOfModel, int32_t> places_;  // empty: heads are numbered as any layer's
};

}  // namespace

Status MakeMaskMethod(const std::string& name, BlockMask mask, std::unique_ptr<PrefillMethod>* method) {
  const auto refuse = [](const std::string& sentence) { return Status(StatusCode::kInvalidArgument, sentence); };
  constexpr int32_t kLargest = 1 << 28;
  for (const auto& [field, value] : {std::pair{"block_q", mask.block_q},
                                     {"block_k", mask.block_k},
                                     {"num_heads", mask.num_heads},
                                     {"num_rows", mask.num_rows}}) {
    if (value < 1 || value > kLargest)
      return refuse(std::string(field) + " is " + std::to_string(value) + ", must be 1 to 2^28");
  }
  const int64_t lists = int64_t{mask.num_heads} * mask.num_rows;
  if (static_cast<int64_t>(mask.begin.size()) != lists + 1 || mask.begin.front() != 0 ||
      mask.begin.back() != static_cast<int64_t>(mask.blocks.size()) ||
      !std::is_sorted(mask.begin.begin(), mask.begin.end()))
    return refuse("begin does not cut blocks into " + std::to_string(lists) + " lists");
  for (const int32_t block : mask.blocks) {
    if (block < 0 || int64_t{block} * mask.block_k >= kLargest)
      return refuse("blocks holds " + std::to_string(block) + ", beyond the last block of 2^28 keys");
  }
  *method = std::make_unique<BlockMaskMethod>(name, std::move(mask));
  return {};
}

Status MakeMaskMethod(const std::string& name, SparseIndex index, const std::vector<HeadOfModel>& heads,
                      std::unique_ptr<PrefillMethod>* method) {
  if (Status status = Validate(index.View()); !status.ok()) return status;
  if (index.rule.kind == MaskKind::kNone)
    return {StatusCode::kInvalidArgument, "mask_kind is 0 (no rule), and keys in a row's future cannot be kept"};
  if (!heads.empty() && static_cast<int64_t>(heads.size()) != index.num_qo_heads) {
    return {StatusCode::kInvalidArgument, "heads names " + std::to_string(heads.size()) +
                                              " heads, and num_qo_heads is " + std::to_string(index.num_qo_heads)};
  }
  std::vector<HeadOfModel> sorted = heads;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return {StatusCode::kInvalidArgument,
            "heads names head " + std::to_string(twice->head) + " of layer " + std::to_string(twice->layer) + " twice"};
  }
  if (!sorted.empty() && (sorted.front().layer < 0 ||
                          std::any_of(sorted.begin(), sorted.end(), [](const auto& one) { return one.head < 0; })))
    return {StatusCode::kInvalidArgument, "heads has a number below 0"};
  *method = std::make_unique<IndexMethod>(name, std::move(index), heads);
  return {};
}

}  // namespace headscope::kernels
