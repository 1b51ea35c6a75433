// SPDX-License-Identifier: Apache-2.0
#include "lost_pane.h"

#include <QHeaderView>
#include <QVBoxLayout>
#include <algorithm>

#include "panes.h"
#include "shown_text.h"
#include "table_picture.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int kAskLostAfterMs = 40;  // a pointer that moves on asks nothing
constexpr size_t kKeysShown = 10;
enum LostColumn { kLostKey, kLostToken, kLostShare, kNumLostColumns };

}  // namespace

LostPane::LostPane(WindowState* state, QWidget* parent)
    : QWidget(parent), state_(state), title_(new QLabel), table_(new QTableWidget(0, kNumLostColumns)) {
  title_->setObjectName(QStringLiteral("lostTitle"));
  title_->setTextFormat(Qt::PlainText);
  title_->setWordWrap(true);
  table_->setObjectName(QStringLiteral("lostTable"));
  table_->setAccessibleName(tr("Keys lost by the query"));
  table_->setHorizontalHeaderLabels({tr("Key"), tr("Token"), tr("Attention lost")});
  table_->horizontalHeaderItem(kLostShare)
      ->setToolTip(tr("Share of the query's attention on this key, which the method drops"));
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::SingleSelection);
  table_->setShowGrid(false);
  table_->setTabKeyNavigation(false);
  table_->setToolTip(tr("Click a key to show it on the map"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 4, 6, 4);
  layout->addWidget(title_);
  layout->addWidget(table_, 1);
  delay_.setSingleShot(true);
  delay_.setInterval(kAskLostAfterMs);
  connect(&delay_, &QTimer::timeout, this, &LostPane::Ask);
  connect(&state->focus, &QueryFocus::Changed, this, [this] { delay_.start(); });
  connect(&state->trial, &MethodTrial::Changed, this, [this] { delay_.start(); });
  connect(table_, &QTableWidget::cellClicked, this, [this](int line, int) { GoTo(line); });
  connect(table_, &QTableWidget::cellActivated, this, [this](int line, int) { GoTo(line); });
  Say({});
}

void LostPane::showEvent(QShowEvent*) {
  state_->trial.SetMaskWanted(this, true);
  delay_.start();
}
void LostPane::hideEvent(QHideEvent*) {
  state_->trial.SetMaskWanted(this, false);
}

void LostPane::GoTo(int line) {
  if (line < 0 || line >= static_cast<int>(lost_.size())) return;
  state_->focus.GoTo(row_, lost_[static_cast<size_t>(line)].column);
}

void LostPane::Say(const QString& text) {
  title_->setText(text.isEmpty() ? tr("Point at a query on the map to list the keys that the method drops for it.")
                                 : text);
  table_->setRowCount(0);
  lost_.clear();
  row_ = asked_row_ = -1;
}

void LostPane::Ask() {
  if (!isVisible()) return;
  const std::optional<LiveMask>& mask = state_->trial.mask();
  const std::optional<int64_t> row = state_->focus.row();
  const TraceSummary& trace = state_->heads.trace();
  if (!mask || !row || *row >= trace.num_rows || !state_->trial.head()) return Say({});
  if (*row == asked_row_ && mask->mask_id == asked_mask_) return;
  asked_row_ = *row;
  asked_mask_ = mask->mask_id;
  state_->workbench->RequestLostKeys(
      *state_->trial.head(), mask->mask_id, *row,
      WhileAlive(this, [this, of = *row, id = mask->mask_id](const std::vector<LostKey>& lost) {
        if (of == asked_row_ && id == asked_mask_) Show(of, lost);
      }));
}

void LostPane::Show(int64_t row, const std::vector<LostKey>& lost) {
  const TraceSummary& trace = state_->heads.trace();
  const int32_t position = trace.row_positions[static_cast<size_t>(row)];
  const auto token = [&](int64_t at) { return QString::fromStdString(trace.token_text[static_cast<size_t>(at)]); };
  row_ = row;
  lost_.assign(lost.begin(), lost.begin() + static_cast<std::ptrdiff_t>(std::min(lost.size(), kKeysShown)));
  double sum = 0;
  for (const LostKey& key : lost_) sum += key.probability;
  const QString query = tr("Query %1 “%2”").arg(position).arg(token(position));
  const QString keys = lost_.size() == 1 ? tr("this key") : tr("these %1 keys").arg(lost_.size());
  title_->setText(
      lost_.empty()
          ? tr("%1 loses no keys.").arg(query)
          : tr("%1 loses most on %2: %3 of its attention in total.").arg(query, keys, QString::number(sum, 'f', 4)));
  table_->setRowCount(static_cast<int>(lost_.size()));
  for (int line = 0; line < table_->rowCount(); ++line) {
    const LostKey& key = lost_[static_cast<size_t>(line)];
    // Quoted: a token of spaces is still to be seen.
    const QString texts[] = {QString::number(key.column), tr("“%1”").arg(token(key.column)),
                             QString::number(key.probability, 'g', 4)};
    for (int column = 0; column < kNumLostColumns; ++column) {
      auto* item = new QTableWidgetItem(texts[column]);
      if (column != kLostToken) item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      item->setToolTip(tr("Click to show it on the map"));
      table_->setItem(line, column, item);
    }
  }
}

TableDrawing LostPane::Drawing() const {
  return DrawingOf(*table_, title_->text());
}

QWidget* MakeLostPane(WindowState* state) {
  auto* pane = new LostPane(state);
  state->offers.OfferPicture(
      pane, {.name = QStringLiteral("lost-keys"),
             .title = QObject::tr("Lost keys"),
             .write = {},
             .why_not = [pane] { return pane->HasKeys() ? QString() : QObject::tr("no query's lost keys are listed"); },
             .table = [pane] { return pane->Drawing(); }});
  return pane;
}

}  // namespace headscope::ui
