// SPDX-License-Identifier: Apache-2.0
// Any figure of the analysis for the open trace, as `headscope render --figure` draws it: chosen from a list, made in
// the background, saved and copied as a command line.
#pragma once

#include <QComboBox>
#include <QImage>
#include <QLabel>
#include <QPushButton>
#include <QWidget>

#include "window_state.h"

namespace headscope::ui {

// The picture, and what there is to say instead of one.
class FigureView : public QWidget {
  Q_OBJECT

 public:
  // `study` outlives the view.
  explicit FigureView(FigureStudy* study, QWidget* parent = nullptr);

  const QImage& image() const { return image_; }
  QSize sizeHint() const override { return {480, 200}; }
  QSize minimumSizeHint() const override { return {200, 90}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  void Refresh();
  void TellPage();

  FigureStudy* const study_;
  FigurePicturePtr picture_;  // whose pixels the image shows
  QImage image_;
  QString text_;
};

class FigurePane : public QWidget {
  Q_OBJECT

 public:
  explicit FigurePane(WindowState* state, QWidget* parent = nullptr);

 protected:
  bool event(QEvent* event) override;

 private:
  void Refresh();
  void Enlarge();  // or put back

  FigureStudy* const study_;
  QComboBox *const figure_, *const heads_;
  QPushButton *const save_, *const enlarge_;
  QLabel* const caption_;
};

}  // namespace headscope::ui
