// The titles of a table, on two lines where that makes a column narrower: more of the columns are in sight at once.
#pragma once

#include <QHeaderView>

namespace headscope::ui {

class WrappedHeader : public QHeaderView {
  Q_OBJECT

 public:
  explicit WrappedHeader(QWidget* parent = nullptr);

  // The least width that shows a column's title whole, with the arrow of a sorted column.
  int TitleWidth(int section) const;

 protected:
  QSize sectionSizeFromContents(int section) const override;

 private:
  QString Title(int section) const;
};

}  // namespace headscope::ui
