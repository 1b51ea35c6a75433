// SPDX-License-Identifier: Apache-2.0
#include "trace_info.h"

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QFileInfo>
#include <QHeaderView>
#include <algorithm>
#include <set>

#include "base/byte_text.h"
#include "panes.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

// "64", or "16 to 192" where layers differ.
QString HeadDims(const TraceSummary& trace) {
  if (trace.head_dim_of_head.empty()) return QString::number(trace.head_dim);
  const auto [least, most] = std::minmax_element(trace.head_dim_of_head.begin(), trace.head_dim_of_head.end());
  return *least == *most ? QString::number(*least) : QObject::tr("%1 to %2").arg(*least).arg(*most);
}

}  // namespace

TraceInfo::TraceInfo(const HeadStore* store, QWidget* parent) : QTreeWidget(parent), store_(store) {
  setObjectName(QStringLiteral("traceInfo"));
  setColumnCount(2);
  setHeaderHidden(true);
  setRootIsDecorated(false);
  setAccessibleName(tr("Facts of the open trace"));
  setSelectionMode(SingleSelection);
  setAllColumnsShowFocus(true);
  setTextElideMode(Qt::ElideMiddle);
  header()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
  connect(store, &HeadStore::TraceChanged, this, &TraceInfo::Rebuild);
  auto* copy = new QAction(tr("Copy the value"), this);
  copy->setObjectName(QStringLiteral("copyTraceFact"));
  copy->setShortcut(QKeySequence::Copy);
  copy->setShortcutContext(Qt::WidgetShortcut);
  connect(copy, &QAction::triggered, this, &TraceInfo::Copy);
  addAction(copy);
  setContextMenuPolicy(Qt::ActionsContextMenu);
}

void TraceInfo::Copy() const {
  const QTreeWidgetItem* const line = currentItem();
  if (line != nullptr) QApplication::clipboard()->setText(line->text(1));
}

void TraceInfo::Rebuild() {
  clear();
  const TraceSummary& trace = store_->trace();
  const auto line = [this](const QString& name, const QString& value) {
    auto* item = new QTreeWidgetItem(this, {name, Shown(value)});
    item->setForeground(0, palette().color(QPalette::PlaceholderText));
    item->setToolTip(1, ShownToolTip(value));
    // A line that the keyboard can stand on as soon as it comes here.
    if (currentItem() == nullptr) setCurrentItem(item, 0, QItemSelectionModel::NoUpdate);
  };
  const QFileInfo file(QString::fromStdString(trace.path));
  std::set<int32_t> layers;
  for (const analysis::HeadId& head : trace.heads) layers.insert(head.layer);
  line(tr("File"), file.fileName());
  line(tr("Folder"), file.absolutePath());
  const QString size = QString::fromStdString(ByteText(trace.bytes));
  line(tr("Size"), trace.files.empty() ? size : tr("%1 in %2 files").arg(size).arg(trace.files.size()));
  line(tr("Complete"), trace.complete ? tr("yes")
                       : trace.expected_tokens > trace.num_tokens
                           ? tr("no: %1 of %2 tokens; the capture was stopped or is still running")
                                 .arg(CountText(trace.num_tokens), CountText(trace.expected_tokens))
                           : tr("no: the capture was stopped or is still running"));
  line(tr("Model"), QString::fromStdString(trace.model_name));
  line(tr("Shape"), tr("%1 layers, %2 query heads over %3 KV heads of %4")
                        .arg(trace.num_layers)
                        .arg(trace.num_qo_heads)
                        .arg(trace.num_kv_heads)
                        .arg(HeadDims(trace)));
  line(tr("Prompt"), QString::fromStdString(trace.prompt_source));
  line(tr("Tokens"), trace.first_token == 0
                         ? CountText(trace.num_tokens)
                         : tr("%1, cut from a longer trace at token %2: masses are shares of each row's whole "
                              "attention; “Mass outside” is the share that lies before the cut")
                               .arg(CountText(trace.num_tokens), CountText(trace.first_token)));
  line(tr("Query rows"), trace.rows_contiguous
                             ? tr("%1, consecutive").arg(CountText(trace.num_rows))
                             : tr("%1, with gaps: methods need consecutive rows").arg(CountText(trace.num_rows)));
  line(tr("Recorded"), tr("%1 in %2")
                           .arg(trace.heads.size() == 1 ? tr("1 head") : tr("%1 heads").arg(trace.heads.size()),
                                layers.size() == 1 ? tr("1 layer") : tr("%1 layers").arg(layers.size())));
}

QWidget* MakeTracePane(WindowState* state) {
  return new TraceInfo(&state->heads);
}

}  // namespace headscope::ui
