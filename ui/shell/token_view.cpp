// SPDX-License-Identifier: Apache-2.0
#include "token_view.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>
#include <utility>

namespace headscope::ui {
namespace {

constexpr int kTextMargin = 6, kLongestToken = 200;
constexpr QColor kTint(230, 120, 30), kQueryFrame(60, 170, 100), kKeyFrame(80, 140, 220), kAnswerLine(230, 120, 30);

}  // namespace

std::vector<int64_t> BreakLines(const std::vector<int>& token_widths, const std::vector<bool>& ends_line, int width) {
  std::vector<int64_t> lines;
  int x = 0;
  bool begins = true;
  for (size_t token = 0; token < token_widths.size(); ++token) {
    if (begins || x + token_widths[token] > width) {
      lines.push_back(static_cast<int64_t>(token));
      x = 0;
    }
    x += token_widths[token];
    begins = ends_line[token];
  }
  return lines;
}

TokenView::TokenView(QWidget* parent) : QAbstractScrollArea(parent) {
  setObjectName(QStringLiteral("tokenView"));
  setAccessibleName(tr("The prompt, tinted by the query's attention"));
  setFocusPolicy(Qt::StrongFocus);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setMouseTracking(true);
  reading_.setSingleShot(true);
  reading_.setInterval(0);
  connect(&reading_, &QTimer::timeout, this, &TokenView::ReadMore);
}

int TokenView::LineHeight() const {
  return fontMetrics().height() + 4;
}

void TokenView::SetTokens(std::vector<std::string> tokens) {
  tokens_ = std::move(tokens);
  texts_.clear();
  ends_line_.clear();
  widths_.clear();
  known_widths_.clear();
  tints_.clear();
  query_.reset();
  key_.reset();
  scroll_to_.reset();
  ReadMore();
  verticalScrollBar()->setValue(0);
}

void TokenView::ReadMore() {
  const size_t end = std::min(tokens_.size(), texts_.size() + kTokensAtOnce);
  for (size_t token = texts_.size(); token < end; ++token) {
    const QString text = QString::fromStdString(tokens_[token]);
    // Printable text has its line ends as "\n".
    ends_line_.push_back(text.endsWith(QStringLiteral("\\n")));
    texts_.push_back(text.left(kLongestToken));
    widths_.push_back(WidthOf(texts_.back()));
  }
  if (texts_.size() < tokens_.size()) {
    reading_.start();
  } else {
    tokens_ = {};
    known_widths_.clear();
  }
  LayOut();
  if (scroll_to_ && *scroll_to_ < num_tokens()) ScrollTo(*scroll_to_);
}

int TokenView::WidthOf(const QString& text) {
  auto width = known_widths_.constFind(text);
  if (width == known_widths_.constEnd())
    width = known_widths_.insert(text, std::max(fontMetrics().horizontalAdvance(text), 2));
  return *width;
}

void TokenView::Measure() {
  known_widths_.clear();
  widths_.clear();
  for (const QString& text : texts_) widths_.push_back(WidthOf(text));
  if (tokens_.empty()) known_widths_.clear();
  LayOut();
}

void TokenView::LayOut() {
  lines_ = BreakLines(widths_, ends_line_, std::max(viewport()->width() - 2 * kTextMargin, 40));
  const int lines = static_cast<int>(lines_.size()), page = std::max(viewport()->height() / LineHeight(), 1);
  verticalScrollBar()->setRange(0, std::max(lines - page, 0));
  verticalScrollBar()->setPageStep(page);
  viewport()->update();
}

void TokenView::SetTints(std::vector<float> tints) {
  tints_ = std::move(tints);
  viewport()->update();
}

void TokenView::SetQuery(std::optional<int64_t> token) {
  if (token == query_) return;
  query_ = token;
  viewport()->update();
}

void TokenView::SetKey(std::optional<int64_t> token) {
  if (token == key_) return;
  key_ = token;
  viewport()->update();
}

float TokenView::TintOf(int64_t token) const {
  return token >= 0 && token < static_cast<int64_t>(tints_.size()) ? tints_[static_cast<size_t>(token)] : 0;
}

void TokenView::SetMarked(const std::vector<TokenSpan>& spans) {
  marked_ = spans;
  viewport()->update();
}

bool TokenView::IsMarked(int64_t token) const {
  return std::any_of(marked_.begin(), marked_.end(),
                     [&](const TokenSpan& span) { return token >= span.begin && token < span.end; });
}

std::optional<int64_t> TokenView::NextMarked(int64_t token) const {
  if (marked_.empty()) return std::nullopt;
  const auto next = std::upper_bound(marked_.begin(), marked_.end(), token,
                                     [](int64_t at, const TokenSpan& span) { return at < span.begin; });
  return (next == marked_.end() ? marked_.front() : *next).begin;
}

int64_t TokenView::LineOf(int64_t token) const {
  return std::upper_bound(lines_.begin(), lines_.end(), token) - lines_.begin() - 1;
}

void TokenView::ScrollTo(int64_t token) {
  scroll_to_ = token;
  if (token < 0 || token >= num_tokens()) return;
  scroll_to_.reset();
  const auto line = static_cast<int>(LineOf(token));
  const int first = verticalScrollBar()->value(), page = verticalScrollBar()->pageStep();
  if (line < first || line >= first + page) verticalScrollBar()->setValue(line - page / 2);
}

QRect TokenView::RectOf(int64_t token) const {
  if (token < 0 || token >= num_tokens()) return {};
  const int64_t line = LineOf(token);
  int x = kTextMargin;
  for (int64_t at = lines_[static_cast<size_t>(line)]; at < token; ++at) x += widths_[static_cast<size_t>(at)];
  const QRect rect(x, (static_cast<int>(line) - verticalScrollBar()->value()) * LineHeight() + 2,
                   widths_[static_cast<size_t>(token)], LineHeight());
  return viewport()->rect().intersects(rect) ? rect : QRect();
}

std::optional<int64_t> TokenView::TokenAt(QPoint at) const {
  const auto line = static_cast<size_t>(std::max(at.y() - 2, 0) / LineHeight() + verticalScrollBar()->value());
  if (line >= lines_.size()) return std::nullopt;
  const int64_t end = line + 1 < lines_.size() ? lines_[line + 1] : num_tokens();
  int x = kTextMargin;
  for (int64_t token = lines_[line]; token < end; ++token) {
    x += widths_[static_cast<size_t>(token)];
    if (at.x() < x) return token;
  }
  return std::nullopt;
}

void TokenView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), palette().base());
  if (texts_.empty()) {
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("Open a trace to read its prompt."));
    return;
  }
  const QColor ink = palette().color(QPalette::Text), faint = palette().color(QPalette::PlaceholderText);
  const int height = LineHeight(), ascent = fontMetrics().ascent();
  const auto first = static_cast<size_t>(verticalScrollBar()->value());
  int y = 2;
  for (size_t line = first; line < lines_.size() && y < viewport()->height(); ++line, y += height) {
    const int64_t end = line + 1 < lines_.size() ? lines_[line + 1] : num_tokens();
    int x = kTextMargin;
    for (int64_t token = lines_[line]; token < end; ++token) {
      const auto at = static_cast<size_t>(token);
      const QRect rect(x, y, widths_[at], height);
      x += widths_[at];
      if (const float tint = TintOf(token); tint > 0) {
        QColor color = kTint;
        color.setAlphaF(std::min(0.85f * tint, 0.85f));
        painter.fillRect(rect, color);
      }
      painter.setPen(query_ && token > *query_ ? faint : ink);
      painter.drawText(rect.x(), rect.y() + 2 + ascent, texts_[at]);
      if (IsMarked(token)) painter.fillRect(QRect(rect.x(), rect.bottom() - 1, rect.width(), 2), kAnswerLine);
      if (token != query_ && token != key_) continue;
      painter.setPen(QPen(token == query_ ? kQueryFrame : kKeyFrame, 2));
      painter.drawRect(rect.adjusted(0, 0, -1, -1));
    }
  }
}

void TokenView::resizeEvent(QResizeEvent*) {
  // What stands at the top stays there.
  const auto top = static_cast<size_t>(verticalScrollBar()->value());
  const int64_t token = top < lines_.size() ? lines_[top] : 0;
  LayOut();
  if (!lines_.empty()) verticalScrollBar()->setValue(static_cast<int>(LineOf(token)));
}

void TokenView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange) Measure();
  QAbstractScrollArea::changeEvent(event);
}

void TokenView::mousePressEvent(QMouseEvent* event) {
  const std::optional<int64_t> token = TokenAt(event->position().toPoint());
  if (!token || (event->button() != Qt::LeftButton && event->button() != Qt::RightButton)) return;
  const bool as_query = event->button() == Qt::RightButton || event->modifiers().testFlag(Qt::ControlModifier);
  Q_EMIT TokenClicked(*token, as_query);
}

void TokenView::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Left || event->key() == Qt::Key_Right) {
    const int step = event->key() == Qt::Key_Left ? -1 : 1;
    if (event->modifiers().testFlag(Qt::ShiftModifier)) {
      Q_EMIT KeyStepped(step);
    } else {
      Q_EMIT QueryStepped(step);
    }
    return;
  }
  QAbstractScrollArea::keyPressEvent(event);
}

bool TokenView::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    if (const auto token = TokenAt(help->pos())) {
      QToolTip::showText(help->globalPos(),
                         (description_ ? description_(*token) : tr("Token %1").arg(*token)) + u'\n' +
                             tr("Click: see it as a key of the query. Ctrl + click or right-click: make it the query.\n"
                                "Left, Right: the query before and after; with Shift: the key."),
                         this);
    } else {
      QToolTip::hideText();
    }
    return true;
  }
  return QAbstractScrollArea::viewportEvent(event);
}

}  // namespace headscope::ui
