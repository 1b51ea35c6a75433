// One sentence over the map: an error or a piece of news. It never stops the work under it.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QTimer>

namespace headscope::ui {

class NoticeBar : public QFrame {
  Q_OBJECT

 public:
  explicit NoticeBar(QWidget* parent = nullptr);
  void ShowError(const QString& sentence);    // stays until it is closed or replaced
  void ShowMessage(const QString& sentence);  // goes by itself
  QString text() const { return label_->text(); }

 private:
  void Show(const QString& sentence, bool error);
  QLabel* label_;
  QTimer timer_;
};

}  // namespace headscope::ui
