// SPDX-License-Identifier: Apache-2.0
// One sentence over the map: an error, a piece of news, or an offer. It never stops the work under it.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QPushButton>
#include <QTimer>
#include <functional>
#include <optional>

namespace headscope::ui {

class NoticeBar : public QFrame {
  Q_OBJECT

 public:
  explicit NoticeBar(QWidget* parent = nullptr);
  void ShowError(const QString& sentence);    // stays until it is closed or replaced
  void ShowMessage(const QString& sentence);  // goes by itself
  // With a button that does `act`. Stays until it is closed, taken, or replaced by another offer: news in between hides
  // it for their own time only.
  void ShowOffer(const QString& sentence, const QString& button, std::function<void()> act);
  // Takes an offer back that something else has settled, on show or not; one that was made since stays. `number` is
  // what newest_offer() was.
  void WithdrawOffer(int number);
  int newest_offer() const { return newest_offer_; }  // counts them
  // As the button at its end: closes what is on show.
  void Dismiss();
  void DismissError();  // when an error is on show: what it said no longer holds
  QString text() const { return label_->text(); }

 Q_SIGNALS:
  void Said(const QString& sentence, bool is_error);  // anew; not what comes into sight again

 private:
  struct Offer {
    QString sentence, button;
    std::function<void()> act;
  };
  enum class Kind { kError, kMessage, kOffer };
  void Show(const QString& sentence, Kind kind);
  void TakeOffer();

  std::optional<Offer> offer_;
  int newest_offer_ = 0;
  Kind shown_ = Kind::kMessage;
  QLabel* label_;
  QPushButton* action_;
  QTimer timer_;
};

}  // namespace headscope::ui
