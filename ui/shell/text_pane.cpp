// SPDX-License-Identifier: Apache-2.0
#include "text_pane.h"

#include <QHBoxLayout>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "cut_label.h"
#include "panes.h"
#include "shown_text.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int kAskFocusAfterMs = 25;         // a pointer that moves on asks nothing
constexpr qsizetype kMostAnswerShown = 200;  // characters: an answer is a file's, and may be of any length

}  // namespace

std::vector<float> TintsOf(const std::vector<float>& probabilities) {
  std::vector<float> tints(probabilities.size(), 0.0f);
  const auto attended = std::count_if(probabilities.begin(), probabilities.end(), [](float p) { return p > 0; });
  if (attended == 0) return tints;
  const float uniform = 1 / static_cast<float>(attended);
  const float most = *std::max_element(probabilities.begin(), probabilities.end());
  if (most <= uniform) return tints;
  for (size_t key = 0; key < tints.size(); ++key) {
    if (probabilities[key] > uniform) tints[key] = std::log(probabilities[key] / uniform) / std::log(most / uniform);
  }
  return tints;
}

TextPane::TextPane(WindowState* state, QWidget* parent)
    : QWidget(parent),
      state_(state),
      title_(new CutLabel),
      answer_(new CutLabel),
      next_answer_(new QToolButton),
      view_(new TokenView) {
  title_->setObjectName(QStringLiteral("textTitle"));
  answer_->setObjectName(QStringLiteral("textAnswer"));
  answer_->hide();
  next_answer_->setObjectName(QStringLiteral("nextAnswer"));
  next_answer_->setText(tr("Next place"));
  next_answer_->setToolTip(tr("Shows the next place in the text that says the answer, as a key of the query."));
  next_answer_->hide();
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 4, 6, 4);
  layout->setSpacing(2);
  layout->addWidget(title_);
  auto* answer_row = new QHBoxLayout;
  answer_row->addWidget(answer_, 1);
  answer_row->addWidget(next_answer_);
  layout->addLayout(answer_row);
  layout->addWidget(view_, 1);
  setFocusProxy(view_);
  delay_.setSingleShot(true);
  delay_.setInterval(kAskFocusAfterMs);
  connect(&delay_, &QTimer::timeout, this, &TextPane::Ask);
  connect(&state->focus, &QueryFocus::Changed, this, [this] { delay_.start(); });
  connect(&state->heads, &HeadStore::SelectionChanged, this, [this] { delay_.start(); });
  connect(&state->heads, &HeadStore::TraceChanged, this, [this] {
    view_->SetTokens(state_->heads.trace().token_text);
    view_->SetMarked(AnswerSpans(state_->heads.trace()));
    ShowAnswer();
    asked_.reset();
    at_answer_.reset();
    delay_.start();
  });
  connect(next_answer_, &QToolButton::clicked, this, &TextPane::GoToNextAnswer);
  connect(view_, &TokenView::TokenClicked, this, &TextPane::Choose);
  connect(view_, &TokenView::QueryStepped, this, &TextPane::StepQuery);
  connect(view_, &TokenView::KeyStepped, this, &TextPane::StepKey);
  view_->SetDescription([this](int64_t token) { return DescriptionOf(token); });
  title_->setText(tr("Point at a query on the map, or right-click a word: its attention tints the text."));
}

void TextPane::ShowAnswer() {
  const TraceSummary& trace = state_->heads.trace();
  const auto shown = [](const std::string& text) {
    const QString whole = QString::fromStdString(text).trimmed();
    if (whole.size() <= kMostAnswerShown) return whole;
    const qsizetype end = kMostAnswerShown - (whole[kMostAnswerShown - 2].isHighSurrogate() ? 2 : 1);
    return whole.left(end) + QChar(0x2026);
  };
  QString line;
  if (!trace.expected_answer.empty()) {
    line = tr("Expected answer: “%1”. ").arg(shown(trace.expected_answer));
    if (trace.model_answer.empty()) {
      line += tr("The trace does not contain the model's answer.");
    } else {
      line += tr("Model's answer: “%1”").arg(shown(trace.model_answer));
      if (!trace.answer_score) {
        line += tr(" (incomplete: the trace ends before it does)");
      } else if (*trace.answer_score == 0 || *trace.answer_score == 1) {
        line += *trace.answer_score == 1 ? tr(" (correct)") : tr(" (wrong)");
      } else {
        line += tr(" (score: %1 of 1)").arg(*trace.answer_score, 0, 'g', 3);
      }
    }
  }
  answer_->setText(line);
  answer_->setToolTip(ShownToolTip(line));
  answer_->setVisible(!line.isEmpty());
  next_answer_->setVisible(view_->NextMarked(-1).has_value());
}

void TextPane::showEvent(QShowEvent*) {
  delay_.start();
}

void TextPane::Ask() {
  if (!isVisible()) return;
  const TraceSummary& trace = state_->heads.trace();
  const std::optional<int64_t> row = state_->focus.row();
  view_->SetKey(state_->focus.key());
  if (!row || *row >= trace.num_rows || !state_->heads.selected()) {
    asked_.reset();
    probabilities_.clear();
    view_->SetQuery(std::nullopt);
    view_->SetTints({});
    title_->setText(tr("Point at a query on the map, or right-click a word: its attention tints the text."));
    return;
  }
  const std::pair wanted(*state_->heads.selected(), *row);
  if (asked_ == wanted) {
    ShowTitle();  // of another key
    return;
  }
  asked_ = wanted;
  probabilities_.clear();
  state_->workbench->RequestRow(wanted.first, wanted.second,
                                WhileAlive(this, [this, wanted](const std::vector<float>& probabilities) {
                                  if (asked_ == wanted) Show(wanted.second, probabilities);
                                }));
}

void TextPane::Show(int64_t row, const std::vector<float>& probabilities) {
  const TraceSummary& trace = state_->heads.trace();
  const int64_t position = trace.row_positions[static_cast<size_t>(row)];
  if (probabilities.empty()) return;
  probabilities_ = probabilities;
  ShowTitle();
  view_->SetTints(TintsOf(probabilities));
  const bool stays = chosen_here_ == row;
  chosen_here_.reset();
  if (view_->query() == position) return;
  view_->SetQuery(position);
  // The text follows the map's pointer to what the query reads, not to the query.
  if (!stays) view_->ScrollTo(std::max_element(probabilities_.begin(), probabilities_.end()) - probabilities_.begin());
}

void TextPane::ShowTitle() {
  if (probabilities_.empty()) return;
  const TraceSummary& trace = state_->heads.trace();
  const auto key_text = [&](int64_t key) {
    return tr("key %1 “%2” (%3)")
        .arg(key)
        .arg(QString::fromStdString(trace.token_text[static_cast<size_t>(key)]))
        .arg(static_cast<double>(probabilities_[static_cast<size_t>(key)]), 0, 'g', 3);
  };
  const int64_t position = trace.row_positions[static_cast<size_t>(asked_->second)];
  const int64_t most = std::max_element(probabilities_.begin(), probabilities_.end()) - probabilities_.begin();
  QString line = tr("Query %1 “%2” of head %3:%4, most on %5")
                     .arg(position)
                     .arg(QString::fromStdString(trace.token_text[static_cast<size_t>(position)]))
                     .arg(asked_->first.layer)
                     .arg(asked_->first.head)
                     .arg(key_text(most));
  const std::optional<int64_t> key = state_->focus.key();
  if (key && *key != most && *key <= position && *key < std::ssize(probabilities_))
    line += tr("; %1").arg(key_text(*key));
  title_->setText(line);
  title_->setToolTip(ShownToolTip(line));
}

QString TextPane::DescriptionOf(int64_t token) const {
  const std::optional<int64_t> query = view_->query();
  if (!query || token > *query || token >= std::ssize(probabilities_)) return tr("Token %1").arg(token);
  return tr("Token %1: p = %2 as a key of query %3")
      .arg(token)
      .arg(static_cast<double>(probabilities_[static_cast<size_t>(token)]), 0, 'g', 3)
      .arg(*query);
}

std::optional<int64_t> TextPane::RowOf(int64_t token) const {
  const std::vector<int32_t>& rows = state_->heads.trace().row_positions;
  const auto row = std::lower_bound(rows.begin(), rows.end(), token);
  if (row == rows.end()) return std::nullopt;
  return row - rows.begin();
}

void TextPane::Choose(int64_t token, bool as_query) {
  const TraceSummary& trace = state_->heads.trace();
  const std::optional<int64_t> present = state_->focus.row();
  // A token that comes after the query is no key of it.
  const bool is_key =
      present && *present < trace.num_rows && token <= trace.row_positions[static_cast<size_t>(*present)];
  if (!as_query && is_key) {
    state_->focus.GoTo(*present, token);
  } else if (const std::optional<int64_t> row = RowOf(token)) {
    chosen_here_ = row;
    state_->focus.GoTo(*row, trace.row_positions[static_cast<size_t>(*row)]);
  }
}

void TextPane::StepQuery(int step) {
  const int64_t last = state_->heads.trace().num_rows - 1;
  if (last < 0) return;
  const int64_t row = std::clamp<int64_t>(state_->focus.row().value_or(0) + step, 0, last);
  chosen_here_ = row;
  state_->focus.Choose(row);
  view_->ScrollTo(state_->heads.trace().row_positions[static_cast<size_t>(row)]);
}

void TextPane::StepKey(int step) {
  const TraceSummary& trace = state_->heads.trace();
  const std::optional<int64_t> row = state_->focus.row();
  if (!row || *row >= trace.num_rows) return;
  const int64_t position = trace.row_positions[static_cast<size_t>(*row)];
  const int64_t key = std::clamp<int64_t>(state_->focus.key().value_or(position) + step, 0, position);
  state_->focus.GoTo(*row, key);
  view_->ScrollTo(key);
}

void TextPane::GoToNextAnswer() {
  at_answer_ = view_->NextMarked(at_answer_.value_or(-1));
  if (!at_answer_) return;
  view_->ScrollTo(*at_answer_);
  Choose(*at_answer_, /*as_query=*/false);
}

QWidget* MakeTextPane(WindowState* state) {
  return new TextPane(state);
}

}  // namespace headscope::ui
