// SPDX-License-Identifier: Apache-2.0
#include "visible_focus.h"

#include <QAbstractScrollArea>
#include <QApplication>
#include <QKeyEvent>
#include <QProxyStyle>
#include <QStyleOption>

namespace headscope::ui {
namespace {

constexpr char kForFile[] = "headscopePaintedForFile";

bool IsForFile(const QWidget* widget) {
  return widget->property(kForFile).toBool();
}

void DrawFrame(QPainter* painter, const QColor& color, const QRect& rect) {
  painter->save();
  painter->setClipping(false);
  painter->setRenderHint(QPainter::Antialiasing, false);
  painter->setBrush(Qt::NoBrush);
  painter->setPen(color);
  painter->drawRect(rect.adjusted(0, 0, -1, -1));
  painter->restore();
}

// Two angles that point to what the window has no room for.
void DrawMoreMark(QPainter* painter, const QColor& color, const QRect& rect) {
  const qreal half = 3;  // pixels
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(QPen(color, 1.5));
  for (const qreal x : {-half, half / 2}) {
    const QPointF tip = QRectF(rect).center() + QPointF(x + half, 0);
    painter->drawPolyline(QPolygonF{tip + QPointF(-half, -half), tip, tip + QPointF(-half, half)});
  }
  painter->restore();
}

// Fusion draws the same frame around a table whether it has the keyboard or not, and the line that is selected keeps
// its colour; the outline of a default button is that of one with the keyboard; a flat one has none; and around tabs,
// tool buttons and the words of a check box there is a tint that is hardly seen. On a dark ground an empty check box is
// as dark as what is around it, and the arrows behind which a tool bar keeps what the window has no room for are black.
class ApplicationStyle : public QProxyStyle {
 public:
  ApplicationStyle() : QProxyStyle(QStringLiteral("Fusion")) {}

  using QProxyStyle::polish;
  void polish(QApplication* application) override {
    QProxyStyle::polish(application);
    application->installEventFilter(this);
  }
  using QProxyStyle::unpolish;
  void unpolish(QApplication* application) override {
    application->removeEventFilter(this);
    QProxyStyle::unpolish(application);
  }
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (!watched->isWidgetType()) return false;
    auto* const widget = static_cast<QWidget*>(watched);
    // Of a key that is a shortcut there is no press: what stands before that asks whether anybody else wants the key.
    const bool is_key = event->type() == QEvent::KeyPress || event->type() == QEvent::ShortcutOverride;
    if (is_key && !IsModifier(static_cast<const QKeyEvent*>(event)->key())) {
      SetByKeys(widget->window(), by_keys_ = true);
    } else if (event->type() == QEvent::MouseButtonPress) {
      SetByKeys(widget->window(), by_keys_ = false);
    } else if (event->type() == QEvent::Show && widget->isWindow()) {
      SetByKeys(widget, by_keys_);
    }
    return false;
  }

  void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override {
    const bool is_area = element == PE_Frame && qobject_cast<const QAbstractScrollArea*>(widget) != nullptr;
    if (is_area && IsForFile(widget)) return;  // a picture has no frame of the window's
    QProxyStyle::drawPrimitive(element, option, painter, widget);
    if (element == PE_IndicatorCheckBox || element == PE_IndicatorItemViewItemCheck)
      DrawFrame(painter, option->palette.color(QPalette::PlaceholderText), option->rect);
    if ((is_area && (option->state & State_HasFocus) != 0) || (element == PE_FrameFocusRect && ByKeyboard(*option)))
      DrawFrame(painter, option->palette.color(QPalette::Highlight), option->rect);
  }
  void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                   const QWidget* widget) const override {
    if (element == CE_ToolButtonLabel && widget != nullptr && widget->objectName() == QLatin1String(kMoreToolsName))
      return DrawMoreMark(painter, option->palette.color(QPalette::ButtonText), option->rect);
    QProxyStyle::drawControl(element, option, painter, widget);
    if (!ByKeyboard(*option)) return;
    constexpr int kInside = 3;  // of the outline
    const QRect inside = option->rect.adjusted(kInside, kInside, -kInside, -kInside);
    // Of tabs Qt asks Fusion alone for the rectangle.
    if (element == CE_TabBarTabLabel) DrawFrame(painter, option->palette.color(QPalette::Highlight), inside);
    const auto* const button = qstyleoption_cast<const QStyleOptionButton*>(option);
    if (element != CE_PushButton || button == nullptr) return;
    if (!button->features.testFlag(QStyleOptionButton::Flat) &&
        !button->features.testFlag(QStyleOptionButton::DefaultButton))
      return;
    // In the ink of its words: a default button's ground is tinted.
    DrawFrame(painter, option->palette.color(QPalette::ButtonText), inside);
  }

 private:
  static bool ByKeyboard(const QStyleOption& option) {
    return (option.state & State_HasFocus) != 0 && (option.state & State_KeyboardFocusChange) != 0;
  }
  static bool IsModifier(int key) {
    return key == Qt::Key_Shift || key == Qt::Key_Control || key == Qt::Key_Alt || key == Qt::Key_Meta;
  }
  // Qt sets it from the first Tab in a window on, and for good. What a key opens, a page or a dialog, has the keyboard
  // before that, and so has what is there when the program starts.
  static void SetByKeys(QWidget* window, bool by_keys) {
    if (window->testAttribute(Qt::WA_KeyboardFocusChange) == by_keys) return;
    window->setAttribute(Qt::WA_KeyboardFocusChange, by_keys);
    if (QWidget* const focused = window->focusWidget()) focused->update();
  }

  bool by_keys_ = true;  // the last input was a key, or there was none yet
};

}  // namespace

void PaintFocus(QPainter* painter, const QWidget* widget, const QRect& rect) {
  if (!widget->hasFocus() || IsForFile(widget)) return;
  DrawFrame(painter, widget->palette().color(QPalette::Highlight), rect);
}

PaintedForFile::PaintedForFile(QWidget* widget) : widget_(widget) {
  widget_->setProperty(kForFile, true);
}

PaintedForFile::~PaintedForFile() {
  widget_->setProperty(kForFile, QVariant());
}

QStyle* MakeApplicationStyle() {
  return new ApplicationStyle;
}

}  // namespace headscope::ui
