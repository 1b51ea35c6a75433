// SPDX-License-Identifier: Apache-2.0
#include "quantise_pane.h"

#include <QHeaderView>
#include <QToolBar>
#include <QVBoxLayout>

#include "kept_choices.h"
#include "panes.h"
#include "shown_text.h"
#include "study_buttons.h"
#include "table_picture.h"

namespace headscope::ui {
namespace {

enum ErrorColumn { kFormat, kScale, kHadamard, kError, kMaximum, kCosine, kQ, kK, kV, kNumErrorColumns };

enum Rotation { kBoth, kOff, kOn };

QComboBox* ChoiceBox(const QString& name, const QString& help, const std::vector<std::string>& names,
                     const QString& all) {
  auto* box = new QComboBox;
  box->setObjectName(name);
  box->setToolTip(help);
  box->setAccessibleName(help);
  box->addItem(all);
  for (const std::string& one : names) box->addItem(QString::fromStdString(one));
  return box;
}

QString Number(double value) {
  return QString::number(value, 'g', 4);
}

}  // namespace

QuantisePane::QuantisePane(WindowState* state, QWidget* parent)
    : QWidget(parent),
      state_(state),
      format_(ChoiceBox(QStringLiteral("quantiseFormat"), tr("Format of the numbers"), state->quantise.formats(),
                        tr("every format"))),
      scale_(ChoiceBox(QStringLiteral("quantiseScale"), tr("What shares a scale; in mxfp4, blocks of 32 do"),
                       state->quantise.scales(), tr("every scale"))),
      hadamard_(new QComboBox),
      says_(new QLabel),
      table_(new QTableWidget(0, kNumErrorColumns)) {
  hadamard_->setObjectName(QStringLiteral("quantiseHadamard"));
  hadamard_->addItems({tr("Hadamard: both"), tr("Hadamard: off"), tr("Hadamard: on")});
  hadamard_->setToolTip(tr("Whether vectors are rotated by a Hadamard matrix before rounding"));
  hadamard_->setAccessibleName(hadamard_->toolTip());
  says_->setObjectName(QStringLiteral("quantiseSays"));
  says_->setWordWrap(true);
  says_->setTextFormat(Qt::PlainText);
  table_->setObjectName(QStringLiteral("quantiseTable"));
  table_->setAccessibleName(tr("Error of the output by format"));
  table_->setHorizontalHeaderLabels({tr("Format"), tr("Scale"), tr("Hadamard"), tr("Relative error"),
                                     tr("Largest error"), tr("Cosine"), tr("q"), tr("k"), tr("v")});
  const QString helps[] = {{},
                           tr("What shares a scale"),
                           tr("Rotated by a Hadamard matrix before rounding"),
                           tr("|O - O_full| / |O_full| of the head's output"),
                           tr("Largest absolute difference of the output"),
                           tr("Mean over queries of the cosine of the two outputs"),
                           tr("|rounded - q| / |q|"),
                           tr("|rounded - k| / |k|"),
                           tr("|rounded - v| / |v|")};
  for (int column = 0; column < kNumErrorColumns; ++column)
    table_->horizontalHeaderItem(column)->setToolTip(helps[column]);
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setShowGrid(false);
  table_->setTabKeyNavigation(false);
  // A bar, whose last buttons go behind its arrow where the pane is narrow: what is in a layout makes the window as
  // wide as all of it.
  auto* top = new QToolBar;
  for (QComboBox* box : {format_, scale_, hadamard_}) {
    top->addWidget(box);
    connect(box, &QComboBox::currentIndexChanged, this, &QuantisePane::Apply);
  }
  KeepChoices(&state->offers, this, QStringLiteral("quantisation"), {format_, scale_, hadamard_});
  QuantiseStudy* const study = &state->quantise;
  const auto* const buttons = new StudyButtons(study, QStringLiteral("quantise"),
                                               {.start = tr("&Quantise"),
                                                .start_help = tr("Quantise the open head in the chosen formats"),
                                                .copy_help = tr("Copy the command that does the same in a terminal")},
                                               this);
  top->addWidget(buttons->start());
  top->addWidget(buttons->copy());
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 2, 6, 4);
  layout->setSpacing(2);
  layout->addWidget(top);
  layout->addWidget(says_);
  layout->addWidget(table_, 1);
  connect(study, &QuantiseStudy::Changed, this, &QuantisePane::Refresh);
  connect(&state->trial, &MethodTrial::RunFinished, this, &QuantisePane::Refresh);
  connect(&state->trial, &MethodTrial::MethodChanged, this, &QuantisePane::Refresh);
  Refresh();
}

void QuantisePane::Apply() {
  QuantiseSettings settings;
  if (format_->currentIndex() > 0) settings.formats = {format_->currentText().toStdString()};
  if (scale_->currentIndex() > 0) settings.scales = {scale_->currentText().toStdString()};
  settings.as_they_are = hadamard_->currentIndex() != kOn;
  settings.turned = hadamard_->currentIndex() != kOff;
  state_->quantise.SetSettings(settings);
}

// What stands over the table: what leaving pairs out does to the same output.
QString QuantisePane::Sentence() const {
  const QuantiseStudy& study = state_->quantise;
  if (!study.error().isEmpty()) return study.error();
  if (study.working()) return tr("Quantising the open head …");
  if (study.outputs().empty()) {
    const QString why_not = study.WhyNot();
    return why_not.isEmpty()
               ? tr("Quantise says what storing Q, K and V of the open head in few bits does to its output.")
               : tr("Nothing to quantise: %1.").arg(why_not);
  }
  const QuantisedOutput& first = study.outputs().front();
  QString text = tr("%1 queries. Leaving out %2 % of the pairs would keep %3 of each query's mass.")
                     .arg(CountText(first.num_rows))
                     .arg(100 * first.sparsity, 0, 'f', 1)
                     .arg(analysis::CraText(analysis::kQuotedCra).c_str());
  const kernels::MethodSpec* const method = state_->trial.method();
  if (method == nullptr) return text;
  const std::optional<analysis::MethodResult>& run = state_->trial.result();
  const QString title = QString::fromStdString(method->title);
  if (run && run->method == method->name && run->parameters == state_->trial.values().ToString(*method)) {
    return text + tr(" %1, which keeps %2 % of the pairs: relative error %3.")
                      .arg(title)
                      .arg(100 * run->kept_fraction, 0, 'f', 1)
                      .arg(Number(run->relative_error));
  }
  return text + tr(" Run %1 (Ctrl+R) to see its error beside these.").arg(title);
}

void QuantisePane::Refresh() {
  const QuantiseStudy& study = state_->quantise;
  says_->setText(Sentence());
  table_->setRowCount(static_cast<int>(study.outputs().size()));
  for (int row = 0; row < table_->rowCount(); ++row) {
    const QuantisedOutput& output = study.outputs()[static_cast<size_t>(row)];
    const QString texts[] = {QString::fromStdString(output.format),
                             QString::fromStdString(output.scale),
                             output.hadamard ? tr("on") : tr("off"),
                             Number(output.relative_error),
                             Number(output.max_error),
                             QString::number(output.cosine, 'f', 6),
                             Number(output.q_error),
                             Number(output.k_error),
                             Number(output.v_error)};
    for (int column = 0; column < kNumErrorColumns; ++column) {
      auto* item = new QTableWidgetItem(texts[column]);
      if (column >= kError) item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      table_->setItem(row, column, item);
    }
  }
  table_->resizeColumnsToContents();
}

TableDrawing QuantisePane::Drawing() const {
  return DrawingOf(*table_, tr("Quantisation: %1").arg(says_->text()));
}

QWidget* MakeQuantisePane(WindowState* state) {
  auto* pane = new QuantisePane(state);
  state->offers.OfferPicture(
      pane,
      {.name = QStringLiteral("quantisation"),
       .title = QObject::tr("Quantisation"),
       .write = {},
       .why_not =
           [state] { return state->quantise.outputs().empty() ? QObject::tr("no head is quantised yet") : QString(); },
       .table = [pane] { return pane->Drawing(); }});
  return pane;
}

}  // namespace headscope::ui
