#include "wrapped_header.h"

#include <QAbstractItemModel>
#include <QStyle>
#include <algorithm>

namespace headscope::ui {
namespace {

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
  const int arrow = style()->pixelMetric(QStyle::PM_HeaderMarkSize, nullptr, this);
  return TwoLineWidth(fontMetrics(), Title(section)) + 2 * margin + arrow;
}

QSize WrappedHeader::sectionSizeFromContents(int section) const {
  const QSize one_line = QHeaderView::sectionSizeFromContents(section);
  const bool wraps = Title(section).contains(u' ');
  return {TitleWidth(section), one_line.height() + (wraps ? fontMetrics().lineSpacing() : 0)};
}

}  // namespace headscope::ui
