// SPDX-License-Identifier: Apache-2.0
#include "wrapped_header.h"

#include <QAbstractItemModel>
#include <QPainter>
#include <QStyle>
#include <QStyleOptionHeader>
#include <algorithm>

namespace headscope::ui {
namespace {

constexpr int kArrowHeight = 4;

// Of a text on at most two lines, broken at the space that makes the longer line shortest.
int TwoLineWidth(const QFontMetrics& metrics, const QString& text) {
  int least = metrics.horizontalAdvance(text);
  for (qsizetype space = text.indexOf(u' '); space >= 0; space = text.indexOf(u' ', space + 1)) {
    least = std::min(
        least, std::max(metrics.horizontalAdvance(text.left(space)), metrics.horizontalAdvance(text.mid(space + 1))));
  }
  return least;
}

}  // namespace

WrappedHeader::WrappedHeader(QWidget* parent) : QHeaderView(Qt::Horizontal, parent) {
  setDefaultAlignment(static_cast<Qt::Alignment>(Qt::AlignCenter | Qt::TextWordWrap));
  setTextElideMode(Qt::ElideNone);
  setSectionsClickable(true);
  setHighlightSections(false);
}

QString WrappedHeader::Title(int section) const {
  return model()->headerData(section, Qt::Horizontal, Qt::DisplayRole).toString();
}

int WrappedHeader::TitleWidth(int section) const {
  const int margin = style()->pixelMetric(QStyle::PM_HeaderMargin, nullptr, this);
  // The style keeps a little to itself at either side.
  return TwoLineWidth(fontMetrics(), Title(section)) + 4 * margin;
}

QSize WrappedHeader::sectionSizeFromContents(int section) const {
  const QSize one_line = QHeaderView::sectionSizeFromContents(section);
  const bool wraps = Title(section).contains(u' ');
  return {TitleWidth(section), one_line.height() + kArrowHeight + (wraps ? fontMetrics().lineSpacing() : 0)};
}

void WrappedHeader::initStyleOptionForIndex(QStyleOptionHeader* option, int section) const {
  QHeaderView::initStyleOptionForIndex(option, section);
  option->sortIndicator = QStyleOptionHeader::None;  // the style's own stands beside the title, which it cuts
}

void WrappedHeader::paintSection(QPainter* painter, const QRect& rect, int section) const {
  painter->save();  // styles leave a clip behind
  QHeaderView::paintSection(painter, rect, section);
  painter->restore();
  if (!isSortIndicatorShown() || sortIndicatorSection() != section) return;
  const QPointF top(rect.center().x() + 0.5, rect.top() + 2);
  const bool up = sortIndicatorOrder() == Qt::DescendingOrder;  // as the style draws it
  const QPointF base(0, kArrowHeight), half(kArrowHeight, 0);
  const QPointF tip = up ? top : top + base, flat = up ? top + base : top;
  const QPointF arrow[] = {tip, flat - half, flat + half};
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(Qt::NoPen);
  painter->setBrush(palette().color(QPalette::Text));
  painter->drawPolygon(arrow, 3);
  painter->restore();
}

}  // namespace headscope::ui
