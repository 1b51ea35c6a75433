// SPDX-License-Identifier: Apache-2.0
// Random decode selections of every form: tokens or pages, with and without weights and a mean-value term.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"

namespace headscope::kernels::test {

enum class Weights { kNone, kShared, kPerHead };

struct SelectionForm {
  int32_t page_size = 1;
  double share = 0.5;  // of the pages, each kept with this probability
  Weights weights = Weights::kNone;
  bool mean_value = false;
  bool empty_list = false;  // list 1, where there is one, keeps nothing
  bool components = false;  // keys up to some token have lost components
};

inline std::string NameOf(const SelectionForm& form) {
  return "pages of " + std::to_string(form.page_size) + ", share " + std::to_string(form.share) +
         (form.weights == Weights::kNone     ? ""
          : form.weights == Weights::kShared ? ", weights"
                                             : ", weights per head") +
         (form.mean_value ? ", mean" : "") + (form.components ? ", components" : "") +
         (form.empty_list ? ", list 1 empty" : "");
}

// A quarter of the weights are 0, as those of tokens that another query head of the group has sampled; the others are
// inverses of probabilities from 1 / 1000 on.
inline DecodeSelection RandomSelection(const AttentionProblem& p, const SelectionForm& form, std::mt19937* random) {
  DecodeSelection selection;
  selection.batch = p.batch;
  selection.num_qo_heads = p.num_qo_heads;
  selection.num_kv_heads = p.num_kv_heads;
  selection.page_size = form.page_size;
  selection.page_begin.push_back(0);
  std::bernoulli_distribution kept(form.share), dropped(0.25);
  const int32_t num_pages = (p.seq_k + form.page_size - 1) / form.page_size;
  for (int32_t list = 0; list < p.batch * p.num_kv_heads; ++list) {
    for (int32_t page = 0; page < num_pages; ++page) {
      if (!(form.empty_list && list == 1) && kept(*random)) selection.pages.push_back(page);
    }
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
  }
  if (form.weights != Weights::kNone) {
    selection.weight_rows = form.weights == Weights::kShared ? 1 : p.GroupSize();
    std::uniform_real_distribution<float> exponent(0.0f, 3.0f);
    const size_t count =
        static_cast<size_t>(selection.weight_rows) * selection.pages.size() * static_cast<size_t>(selection.page_size);
    for (size_t i = 0; i < count; ++i)
      selection.weights.push_back(dropped(*random) ? 0.0f : std::pow(10.0f, exponent(*random)));
  }
  if (form.mean_value) {
    std::uniform_real_distribution<float> alpha(0.0f, 1.0f);
    std::normal_distribution<float> normal;
    for (int32_t i = 0; i < p.batch * p.num_qo_heads; ++i) selection.alpha.push_back(alpha(*random));
    for (int32_t i = 0; i < p.batch * p.num_kv_heads * p.ValueDim(); ++i)
      selection.mean_value.push_back(normal(*random));
  }
  if (form.components) {
    selection.components_end = std::uniform_int_distribution<int32_t>(1, p.seq_k)(*random);
    selection.component_begin.push_back(0);
    std::bernoulli_distribution left(0.6);
    for (int32_t list = 0; list < p.batch * p.num_kv_heads; ++list) {
      for (int32_t d = 0; d < p.head_dim; ++d) {
        if (d == 0 || left(*random)) selection.components.push_back(d);
      }
      selection.component_begin.push_back(static_cast<int64_t>(selection.components.size()));
    }
  }
  return selection;
}

}  // namespace headscope::kernels::test
