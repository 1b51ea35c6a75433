// SPDX-License-Identifier: Apache-2.0
// The prompt as running text, each token tinted by a weight of its own. Only the lines in sight are painted, so that
// 131,072 tokens cost no more than a page.
#pragma once

#include <QAbstractScrollArea>
#include <QHash>
#include <QTimer>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "token_search.h"

namespace headscope::ui {

// The first token of each line, when lines are at most `width` wide; a token that ends a line of the text ends its line
// here, too. Pure; linear in the number of tokens.
std::vector<int64_t> BreakLines(const std::vector<int>& token_widths, const std::vector<bool>& ends_line, int width);

class TokenView : public QAbstractScrollArea {
  Q_OBJECT

 public:
  explicit TokenView(QWidget* parent = nullptr);

  // Reads kTokensAtOnce of them now and the others in events that follow: of a long prompt all would take a third of a
  // second, in which nothing else happens.
  void SetTokens(std::vector<std::string> tokens);
  static constexpr size_t kTokensAtOnce = 1024;
  // Of every token, 0 to 1: how strongly it is tinted. Empty: none is.
  void SetTints(std::vector<float> tints);
  // The query, which has a frame; tokens after it are faint. And the key that was chosen with it.
  void SetQuery(std::optional<int64_t> token);
  void SetKey(std::optional<int64_t> token);
  std::optional<int64_t> query() const { return query_; }
  std::optional<int64_t> key() const { return key_; }
  float TintOf(int64_t token) const;
  // Underlined: a task's answer.
  void SetMarked(const std::vector<TokenSpan>& spans);
  bool IsMarked(int64_t token) const;
  // Where the next marked place after `token` begins, or the first one when none is left.
  std::optional<int64_t> NextMarked(int64_t token) const;
  // The first line of a token's tooltip.
  void SetDescription(std::function<QString(int64_t token)> description) { description_ = std::move(description); }
  void ScrollTo(int64_t token);  // when it has been read

  std::optional<int64_t> TokenAt(QPoint at) const;
  QRect RectOf(int64_t token) const;  // in the viewport's coordinates; empty when it is out of sight

 Q_SIGNALS:
  void TokenClicked(qint64 token, bool as_query);
  void QueryStepped(int step);
  void KeyStepped(int step);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool viewportEvent(QEvent* event) override;

 private:
  void ReadMore();
  int WidthOf(const QString& text);
  void Measure();
  void LayOut();
  int LineHeight() const;
  int64_t LineOf(int64_t token) const;
  int64_t num_tokens() const { return static_cast<int64_t>(texts_.size()); }

  std::vector<std::string> tokens_;  // until all of them are read
  QTimer reading_;
  QHash<QString, int> known_widths_;  // while they are read: a prompt has far fewer different tokens than tokens
  std::optional<int64_t> scroll_to_;  // a token that is not read yet
  std::vector<QString> texts_;        // that are read
  std::vector<int> widths_;
  std::vector<bool> ends_line_;
  std::vector<int64_t> lines_;  // first tokens
  std::vector<float> tints_;
  std::vector<TokenSpan> marked_;  // ascending
  std::optional<int64_t> query_, key_;
  std::function<QString(int64_t)> description_;
};

}  // namespace headscope::ui
