// SPDX-License-Identifier: Apache-2.0
// The prompt, tinted by the attention of the query under the pointer, or of the one chosen last. A click chooses a key
// or a query.
#pragma once

#include <QLabel>
#include <QTimer>
#include <QToolButton>
#include <QWidget>

#include "token_view.h"
#include "window_state.h"

namespace headscope::ui {

// How strongly a key is tinted: 0 where it has no more than a uniform query's share, 1 at the most probable key, and
// between them by the logarithm, so that a few strong keys do not hide the others. Pure.
std::vector<float> TintsOf(const std::vector<float>& probabilities);

class TextPane : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the pane.
  explicit TextPane(WindowState* state, QWidget* parent = nullptr);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void Ask();
  void Show(int64_t row, const std::vector<float>& probabilities);
  void ShowAnswer();
  void Choose(int64_t token, bool as_query);
  void StepQuery(int step);
  void StepKey(int step);
  void ShowTitle();
  void GoToNextAnswer();
  QString DescriptionOf(int64_t token) const;
  // The recorded row of a token, or of the next one that was recorded.
  std::optional<int64_t> RowOf(int64_t token) const;

  WindowState* const state_;
  QLabel *title_, *answer_;
  QToolButton* next_answer_;
  TokenView* view_;
  QTimer delay_;
  std::optional<std::pair<analysis::HeadId, int64_t>> asked_;
  std::vector<float> probabilities_;    // of the keys of the query that is on show
  std::optional<int64_t> at_answer_;    // the place that was gone to last
  std::optional<int64_t> chosen_here_;  // the row that was chosen in this text, which then stays where it is
};

}  // namespace headscope::ui
