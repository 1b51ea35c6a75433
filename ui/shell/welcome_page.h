// SPDX-License-Identifier: Apache-2.0
// Where to begin: recent traces, examples, heads worth a look, open, capture, and a tour of five steps over the real
// panes. It lies over the map while nothing is open, and when it is asked for.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QList>
#include <QPointer>
#include <QPushButton>
#include <QVBoxLayout>
#include <functional>
#include <span>

#include "panes.h"
#include "worth_a_look.h"

namespace headscope::ui {

struct TourStep {
  PaneMaker pane;      // what the step shows; null: what `action` does
  const char* action;  // object name of an action
  const char* text;

  QString ActionName() const { return pane != nullptr ? GoToPaneName(pane) : QString(QLatin1String(action)); }
};

class WelcomePage : public QFrame {
  Q_OBJECT

 public:
  explicit WelcomePage(QWidget* parent = nullptr);

  // Shows itself over `sibling`, and takes no room from it.
  void Open(QWidget* sibling, const QStringList& recent, const std::vector<HeadWorthALook>& heads,
            const std::vector<Example>& examples);
  int tour_step() const { return step_; }  // -1: no tour
  // While this step of the tour is shown, a frame stands around that part of a widget: what the text is about. It
  // follows the widget; of a part that moves inside it, FollowPart tells.
  void Frame(QWidget* widget, std::function<QRect()> part);
  void FollowPart() { PlaceFrame(); }

  static std::span<const TourStep> Tour();

 Q_SIGNALS:
  void OpenRequested(const QString& path);  // empty: a dialog
  void CaptureRequested();
  void ExampleRequested(const headscope::ui::Example& example);
  void HeadRequested(headscope::analysis::HeadId head);
  void TourShows(const QString& action);  // object name of an action
  void Gone();                            // from the screen

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void hideEvent(QHideEvent* event) override;
  // Round the page in the order in which it is read: what lies under it is reached when it is closed.
  bool focusNextPrevChild(bool next) override;

 private:
  void PlaceFrame();
  void RemoveFrame();
  void WatchFramed();  // it, and what it lies in: where it is to be seen depends on each of them
  void UnwatchFramed();
  void Place();
  void ShowStep(int step);
  QPushButton* AddLink(QVBoxLayout* layout, const QString& text, const QString& tip);

  QWidget* sibling_ = nullptr;
  QWidget *page_, *tour_;
  QVBoxLayout *recent_, *examples_, *heads_;
  QLabel *recent_title_, *examples_title_, *heads_title_, *tour_text_;
  QPushButton *next_, *before_;
  int step_ = -1;
  QWidget* frame_;  // beside this page, in its parent
  QPointer<QWidget> framed_;
  std::function<QRect()> framed_part_;
  QList<QPointer<QWidget>> watched_;  // for the frame
  bool placing_ = false;              // asked for
};

}  // namespace headscope::ui
