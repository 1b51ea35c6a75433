// SPDX-License-Identifier: Apache-2.0
// What can be done with a head, or with several, where they stand in a pane: the menu of the matrix, the table and the
// maps.
#include <QApplication>
#include <QClipboard>
#include <QInputDialog>
#include <QMenu>

#include "head_filter.h"
#include "main_window.h"
#include "selected_rows.h"

namespace headscope::ui {
namespace {

constexpr int kLongestTag = 100;

}  // namespace

void MainWindow::ShowHeadsMenu(const std::vector<analysis::HeadId>& heads, QPoint global, const QList<QAction*>& more) {
  const QString word = HeadFilter::WordOf(heads);
  auto* menu = new QMenu(this);
  menu->setObjectName(QStringLiteral("headsMenu"));
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const auto add = [menu, this](const char* name, const QString& text, std::function<void()> run) {
    QAction* const action = menu->addAction(text);
    action->setObjectName(QLatin1String(name));
    connect(action, &QAction::triggered, this, std::move(run));
  };
  const auto filter = [&](const char* name, const QString& text, const QString& by) {
    add(name, text, [this, by] { state_.heads.AskForFilter(by); });
  };
  if (heads.size() == 1) {
    const analysis::HeadId head = heads.front();
    add("openHead", tr("Open %1").arg(word), [this, head] { state_.heads.Select(head); });
    add("besideHead", tr("Show %1 in the second map").arg(word), [this, head] { ShowBeside(head); });
    menu->addSeparator();
    filter("likeHead", tr("Heads like %1").arg(word), QStringLiteral("like=%1").arg(word));
    filter("layerOfHead", tr("Layer %1 alone").arg(head.layer), QStringLiteral("%1:").arg(head.layer));
    if (const analysis::HeadStatistics* const statistics = state_.heads.Find(head)) {
      const QString name = QString::fromStdString(std::string(analysis::HeadClassName(statistics->head_class)));
      filter("classOfHead", tr("Heads of its class, %1").arg(name), QStringLiteral("class=%1").arg(name));
    }
  } else {
    filter("onlyHeads", tr("These %1 heads alone").arg(heads.size()), word);
  }
  menu->addSeparator();
  add("tagHeads", heads.size() == 1 ? tr("Tag %1\u2026").arg(word) : tr("Tag %1 heads\u2026").arg(heads.size()),
      [this, heads] { AskForTag(heads); });
  add("copyHeads", tr("Copy as text"), [this, word] { CopyText(word); });
  AddFromPane(menu, more);
  menu->popup(global);
}

void MainWindow::ShowBeside(analysis::HeadId head) {
  if (others_.empty()) Split(1);
  ShowReference(others_.front(), head);
}

void MainWindow::AskForTag(const std::vector<analysis::HeadId>& heads) {
  auto* ask = new QInputDialog(this);
  ask->setObjectName(QStringLiteral("tagDialog"));
  ask->setAttribute(Qt::WA_DeleteOnClose);
  ask->setWindowTitle(tr("Tag"));
  ask->setLabelText(heads.size() == 1 ? tr("Tag of %1:").arg(HeadFilter::WordOf(heads))
                                      : tr("Tag of %1 heads:").arg(heads.size()));
  // A trace that is opened meanwhile has other heads.
  connect(&state_.heads, &HeadStore::TraceChanged, ask, &QDialog::reject);
  connect(ask, &QInputDialog::textValueSelected, this, [this, heads](const QString& tag) {
    for (const analysis::HeadId head : heads) state_.notes.AddTag(head, tag.left(kLongestTag));
  });
  ask->open();
}

}  // namespace headscope::ui
