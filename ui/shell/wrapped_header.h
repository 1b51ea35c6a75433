// SPDX-License-Identifier: Apache-2.0
// The titles of a table, on two lines where that makes a column narrower: more of the columns are in sight at once.
#pragma once

#include <QHeaderView>

namespace headscope::ui {

class WrappedHeader : public QHeaderView {
  Q_OBJECT

 public:
  explicit WrappedHeader(QWidget* parent = nullptr);

  // The least width that shows a column's title whole. The arrow of a sorted column stands above its title.
  int TitleWidth(int section) const;

 protected:
  QSize sectionSizeFromContents(int section) const override;
  void initStyleOptionForIndex(QStyleOptionHeader* option, int section) const override;
  void paintSection(QPainter* painter, const QRect& rect, int section) const override;

 private:
  QString Title(int section) const;
};

}  // namespace headscope::ui
