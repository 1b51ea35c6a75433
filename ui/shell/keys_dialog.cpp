// SPDX-License-Identifier: Apache-2.0
#include "keys_dialog.h"

#include <QVBoxLayout>
#include <algorithm>
#include <utility>

namespace headscope::ui {
namespace {

struct Gesture {
  const char *section, *keys, *meaning;
};
// In the order of their sections.
constexpr Gesture kGestures[] = {
    {"Map", "Wheel", "Zoom around the pointer; Ctrl: finer, Shift: faster"},
    {"Map", "+ and −", "Zoom around the centre of the map"},
    {"Map", "Drag, middle drag, W A S D, arrows", "Pan; Shift + keys pan farther"},
    {"Map", "Shift + drag, right drag", "Zoom to the rectangle, whose size is shown"},
    {"Map", "Double-click", "Zoom in there"},
    {"Map", "Hover", "Query and key token, probability, score, kept or not"},
    {"Map", "Click", "Mark that query and key; Text and Lost keys stay with the query. Again: clear the mark"},
    {"Map", "Right-click, menu key", "What can be done with this score and this view"},
    {"Map", "Click on a curve beside the map", "Mark that key or query"},
    {"Map", "Click or drag in the small map", "Move the view there"},
    {"Map", "Click on a numbered pin", "Go to that bookmark; hover: its note"},
    {"Map", "Esc", "Cancel a rectangle; clear the mark; close the find bar, the palette or a notice"},
    {"Method panel", "Tab, Shift + Tab", "From the map through the panel's controls"},
    {"Method panel", "Arrows, Home, End, Space", "Change the focused control; Esc: back to the map"},
    {"Method panel", "F4, Alt + Down", "Open the list of methods, or of colours if that one has the focus"},
    {"Method panel", "Ctrl + click on a slider", "Type its value; double-click: its default"},
    {"Panes", "F6, Shift + F6", "Next, previous visible pane"},
    {"Panes", "Tab, Shift + Tab", "Next, previous control"},
    {"Panes", "Left, Right, Home, End in the tool bar", "Previous, next, first, last button"},
    {"Panes", "Arrows in the matrix and in Maps", "Open the neighbouring head"},
    {"Panes", "Ctrl + wheel, +, - in Maps", "Larger, smaller maps; 0: as wide as the pane"},
    {"Panes", "Right-click or menu key on a head", "Open it beside this one, tag it, filter by it"},
    {"Panes", "Click on a column header", "Sort; right-click: choose columns"},
    {"Panes", "Drag in Kept mass, B there", "Mark the queries with those masses on the map; Esc: clear the marks"},
    {"Panes", "Drag the line in Kept mass, arrows there",
     "Move the target; Ctrl finer, Shift coarser, double-click for 0.95"},
    {"Panes", "Drag the line in Mass by query, Up and Down there",
     "Move the target, and the method's parameters with it"},
    {"Panes", "Drag in Histogram", "Show only the heads in that range"},
    {"Panes", "Click on a lost key or a word of the text", "Show it on the map; right-click a word: make it the query"},
    {"Panes", "Left, Right in Text", "The query before, after; with Shift: the key"},
    {"Panes", "Click on a point in the trade-off", "Open that run; arrow keys and Enter work as well"},
    {"Panes", "Double-click on a run, Enter there", "Open its head, and its method with its parameters"},
    {"Panes", "Click on the progress of a capture", "Open its dialog again"},
    {"Panes", "Drop a .h5 file or a model folder", "Open it; capture from it"},
};

}  // namespace

std::vector<KeysSection> GestureSections() {
  std::vector<KeysSection> sections;
  for (const Gesture& gesture : kGestures) {
    const QString title = QObject::tr(gesture.section);
    if (sections.empty() || sections.back().title != title) sections.push_back({title, {}});
    sections.back().lines.push_back({QString::fromUtf8(gesture.keys), QString::fromUtf8(gesture.meaning)});
  }
  return sections;
}

KeysDialog::KeysDialog(std::vector<KeysSection> sections, QWidget* parent)
    : QDialog(parent), sections_(std::move(sections)), filter_(new QLineEdit), text_(new QTextBrowser) {
  setObjectName(QStringLiteral("keysDialog"));
  setWindowTitle(tr("Keys and mouse"));
  filter_->setObjectName(QStringLiteral("keysFilter"));
  filter_->setPlaceholderText(tr("Filter by key or by what it does"));
  filter_->setAccessibleName(tr("Filter"));
  filter_->setClearButtonEnabled(true);
  text_->setAccessibleName(tr("Keys and what they do"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 8, 8, 8);
  layout->addWidget(filter_);
  layout->addWidget(text_);
  connect(filter_, &QLineEdit::textChanged, this, &KeysDialog::Show);
  Show();
  filter_->setFocus();
}

void KeysDialog::Show() {
  const QStringList words = filter_->text().split(u' ', Qt::SkipEmptyParts);
  QString rows;
  for (const KeysSection& section : sections_) {
    QString lines;
    for (const KeysSection::Line& line : section.lines) {
      const QString all = section.title + u' ' + line.keys + u' ' + line.meaning;
      if (!std::all_of(words.begin(), words.end(),
                       [&](const QString& word) { return all.contains(word, Qt::CaseInsensitive); }))
        continue;
      lines += QStringLiteral("<tr><td width='40%'><b>%1</b></td><td>%2</td></tr>")
                   .arg(line.keys.toHtmlEscaped(), line.meaning.toHtmlEscaped());
    }
    if (lines.isEmpty()) continue;
    rows += QStringLiteral("<tr><td colspan='2'><br><span style='font-size:large'>%1</span></td></tr>%2")
                .arg(section.title.toHtmlEscaped(), lines);
  }
  text_->setHtml(rows.isEmpty() ? tr("Nothing has all of these words.")
                                : QStringLiteral("<table cellpadding='4' width='100%'>%1</table>").arg(rows));
}

}  // namespace headscope::ui
