// SPDX-License-Identifier: Apache-2.0
#include "capture_dialog.h"

#include <QCheckBox>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QMessageBox>
#include <QStackedWidget>
#include <QStandardPaths>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "allowed.h"
#include "base/byte_text.h"
#include "base/device.h"
#include "base/element_type.h"
#include "base/file_format.h"
#include "capture_estimate.h"
#include "error_ink.h"
#include "progress_strip.h"
#include "shown_text.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

// Bytes of a prompt per token, about, for English prose: only the size estimate of typed text and of files uses it, and
// says so.
constexpr double kBytesPerToken = 3.3;

// A longer argument is refused by Linux (MAX_ARG_STRLEN), and with it the command.
constexpr qsizetype kMostArgumentBytes = 128 << 10;

// In the order of the box; the first leaves it to the model.
constexpr std::array<std::optional<ElementType>, 3> kTypes = {std::nullopt, ElementType::kFloat32,
                                                              ElementType::kBFloat16};

// `name`: of the field, for who hears it; the form's label names the row, and not what is in it.
QWidget* WithButton(QLineEdit* edit, const QString& name, std::function<void()> pressed) {
  auto* row = new QWidget;
  auto* layout = new QHBoxLayout(row);
  layout->setContentsMargins(0, 0, 0, 0);
  edit->setAccessibleName(name);
  layout->addWidget(edit, 1);
  // Behind the field, and so the next stop of Tab.
  auto* button = new QPushButton(QObject::tr("Browse…"), row);
  button->setAutoDefault(false);
  button->setAccessibleName(QObject::tr("%1: browse").arg(name));
  layout->addWidget(button);
  QObject::connect(button, &QPushButton::clicked, edit, std::move(pressed));
  return row;
}

QPalette ErrorPalette(QPalette colors) {
  colors.setColor(QPalette::WindowText, ErrorInk(colors));
  return colors;
}

QString DefaultOutput() {
  return QDir(QStandardPaths::writableLocation(QStandardPaths::HomeLocation)).filePath(QStringLiteral("capture.h5"));
}

}  // namespace

CaptureDialog::CaptureDialog(Workbench* workbench, QWidget* parent)
    : QDialog(parent),
      workbench_(workbench),
      devices_(workbench->capture_devices()),
      recordable_(workbench->recordable()) {
  setObjectName(QStringLiteral("captureDialog"));
  setWindowTitle(tr("Capture a trace"));
  setModal(false);
  BuildForm();
  SetModelDir(QString::fromStdString(workbench->default_model_dir()));
}

void CaptureDialog::BuildForm() {
  const auto named = [](auto* widget, const char* name) {
    widget->setObjectName(QLatin1String(name));
    return widget;
  };
  model_dir_ = named(new QLineEdit, "captureModel");
  layers_ = named(new QLineEdit, "captureLayers");
  heads_ = named(new QLineEdit, "captureHeads");
  heads_kind_ = named(new QComboBox, "captureHeadsKind");
  rows_ = named(new QLineEdit(QStringLiteral("all")), "captureRows");
  output_ = named(new QLineEdit(DefaultOutput()), "captureOutput");
  decode_ = named(new QSpinBox, "captureDecode");
  files_ = named(new QSpinBox, "captureFiles");
  dtype_ = named(new QComboBox, "captureDtype");
  device_ = named(new QComboBox, "captureDevice");
  model_label_ = named(new QLabel, "captureModelLabel");
  estimate_ = named(new QLabel, "captureEstimate");
  status_ = named(new QLabel, "captureStatus");
  problem_ = named(new QLabel, "captureProblem");
  progress_ = named(new QProgressBar, "captureProgress");
  start_ = named(new QPushButton(tr("Start capture")), "captureStart");
  stop_ = named(new QPushButton(tr("Cancel capture")), "captureStop");
  open_ = named(new QPushButton(tr("Open trace")), "captureOpen");
  close_ = named(new QPushButton(tr("Close")), "captureClose");
  copy_ = named(new QPushButton(tr("Copy command")), "captureCommand");
  copy_->setToolTip(tr("Copy the command that captures this trace in a terminal"));
  stop_->setToolTip(tr("Stop; what has been recorded so far stays a valid trace"));
  layers_->setPlaceholderText(tr("all, or e.g. 0-3,7"));
  heads_->setPlaceholderText(tr("all, or e.g. 0-3,7"));
  heads_kind_->addItems({tr("query heads"), tr("KV heads")});
  heads_kind_->setToolTip(tr("Whether the numbers are query heads, or KV heads with every query head that reads them"));
  heads_kind_->setAccessibleName(tr("Kind of head numbers"));
  heads_->setAccessibleName(tr("Heads"));
  decode_->setAccessibleName(tr("Decode tokens"));
  rows_->setToolTip(
      tr("Query rows to record: all, last:N, every:N, random:N, random:N:SEED, or ranges A:B,C:D of rows A to B-1. "
         "Sparse methods need consecutive rows: all, last:N or a single range"));
  decode_->setRange(0, 1'000'000);
  decode_->setToolTip(tr("Tokens to generate after the prompt, recorded as decode steps"));
  files_->setRange(1, kMostTraceFiles);
  files_->setToolTip(
      tr("Files that hold the trace, each some of the layers, written at the same time; any one of them opens the "
         "whole"));
  dtype_->setToolTip(tr("Precision of the trace; auto: bf16 for a bf16 model, fp32 otherwise"));
  for (const std::optional<ElementType> type : kTypes) {
    const std::string_view name = ComputeTypeName(type);
    dtype_->addItem(QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size())));
  }
  for (const Device& device : devices_) device_->addItem(QString::fromStdString(DeviceText(device)));
  device_->addItem(tr("auto"));
  device_->setToolTip(
      tr("The device that runs the model: the CPU or one of this machine's GPUs; auto: as many layers as fit go to the "
         "GPUs, the rest to the CPU"));
  model_label_->setWordWrap(true);
  status_->setWordWrap(true);
  status_->setTextFormat(Qt::PlainText);
  model_label_->setTextFormat(Qt::PlainText);
  problem_->setWordWrap(true);
  problem_->setTextFormat(Qt::PlainText);
  problem_->setForegroundRole(QPalette::PlaceholderText);
  progress_->setTextVisible(false);
  start_->setDefault(true);
  for (QPushButton* button : {open_, close_, stop_, copy_}) button->setAutoDefault(false);

  form_ = new QWidget;
  auto* form = new QFormLayout(form_);
  form->setContentsMargins(0, 0, 0, 0);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form->addRow(tr("Model folder"), WithButton(model_dir_, tr("Model folder"), [this] {
                 const QString folder = QFileDialog::getExistingDirectory(this, tr("Model folder"), model_dir_->text());
                 if (!folder.isEmpty()) SetModelDir(folder);
               }));
  form->addRow(QString(), model_label_);
  form->addRow(tr("Prompt"), BuildPromptRow());
  form->addRow(tr("Layers"), layers_);
  auto* heads = new QWidget;
  auto* in_heads = new QHBoxLayout(heads);
  in_heads->setContentsMargins(0, 0, 0, 0);
  in_heads->addWidget(heads_kind_);
  in_heads->addWidget(heads_, 1);
  form->addRow(tr("Heads"), heads);
  form->addRow(tr("Query rows"), rows_);
  auto* decode_and_files = new QWidget;
  auto* in_decode_and_files = new QHBoxLayout(decode_and_files);
  in_decode_and_files->setContentsMargins(0, 0, 0, 0);
  in_decode_and_files->addWidget(decode_, 1);
  auto* files_label = new QLabel(tr("Fi&les"));
  files_label->setBuddy(files_);
  in_decode_and_files->addWidget(files_label);
  in_decode_and_files->addWidget(files_);
  auto* decode_label = new QLabel(tr("Decode tokens"));
  decode_label->setBuddy(decode_);
  form->addRow(decode_label, decode_and_files);
  auto* record = new QWidget;
  constexpr int kBoxesInARow = 4;  // as wide as the other rows
  auto* record_layout = new QGridLayout(record);
  record_layout->setContentsMargins(0, 0, 0, 0);
  for (const Recordable& what : recordable_) {
    auto* box = new QCheckBox(QString::fromStdString(what.name));
    box->setObjectName(QStringLiteral("record-") + QString::fromStdString(what.name));
    box->setToolTip(tr("Also record: %1").arg(QString::fromStdString(what.help)));
    connect(box, &QCheckBox::toggled, this, &CaptureDialog::Refresh);
    const int number = static_cast<int>(record_.size());
    record_layout->addWidget(box, number / kBoxesInARow, number % kBoxesInARow);
    record_.append(box);
  }
  record_layout->setColumnStretch(kBoxesInARow, 1);
  form->addRow(tr("Also record"), record);
  form->addRow(tr("Precision"), dtype_);
  form->addRow(tr("Device"), device_);
  form->addRow(tr("Write to"), WithButton(output_, tr("Write to"), [this] {
                 const QString path =
                     QFileDialog::getSaveFileName(this, tr("Write trace to"), output_->text(), tr("Traces (*.h5)"),
                                                  nullptr, QFileDialog::DontConfirmOverwrite);
                 if (!path.isEmpty()) output_->setText(path);
               }));
  form->addRow(tr("Needs"), estimate_);

  auto* buttons = new QHBoxLayout;
  buttons->addWidget(problem_, 1);
  buttons->addWidget(copy_);
  buttons->addWidget(close_);
  buttons->addWidget(open_);
  buttons->addWidget(stop_);
  buttons->addWidget(start_);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(16, 16, 16, 12);
  layout->setSpacing(10);
  layout->addWidget(form_);
  layout->addWidget(progress_);
  layout->addWidget(status_);
  layout->addStretch(1);
  layout->addLayout(buttons);
  resize(620, 0);

  // While it is typed, so that leaving the field by a click on Start finds the folder known and the button awake.
  typing_.setSingleShot(true);
  typing_.setInterval(200);
  connect(&typing_, &QTimer::timeout, this, &CaptureDialog::DescribeModel);
  connect(model_dir_, &QLineEdit::textEdited, &typing_, qOverload<>(&QTimer::start));
  connect(model_dir_, &QLineEdit::editingFinished, this, &CaptureDialog::DescribeModel);
  for (QLineEdit* edit : {layers_, heads_, rows_, output_, prompt_file_, ids_})
    connect(edit, &QLineEdit::textChanged, this, &CaptureDialog::Refresh);
  connect(heads_kind_, &QComboBox::currentIndexChanged, this, &CaptureDialog::Refresh);
  for (QSpinBox* box : {length_, decode_, files_}) connect(box, &QSpinBox::valueChanged, this, &CaptureDialog::Refresh);
  estimate_delay_.setSingleShot(true);
  estimate_delay_.setInterval(300);
  connect(&estimate_delay_, &QTimer::timeout, this, &CaptureDialog::AskForEstimate);
  estimate_->setWordWrap(true);
  estimate_->setTextFormat(Qt::PlainText);
  for (QComboBox* box : {prompt_kind_, task_, dtype_, device_})
    connect(box, &QComboBox::currentIndexChanged, this, &CaptureDialog::Refresh);
  connect(text_, &QPlainTextEdit::textChanged, this, &CaptureDialog::Refresh);
  connect(start_, &QPushButton::clicked, this, &CaptureDialog::Start);
  connect(stop_, &QPushButton::clicked, this, &CaptureDialog::Stop);
  connect(close_, &QPushButton::clicked, this, &QDialog::close);
  connect(copy_, &QPushButton::clicked, this, [this] { Q_EMIT CopyWanted(Settings()); });
  connect(open_, &QPushButton::clicked, this, [this] {
    close();
    Q_EMIT OpenRequested(captured_path_);
  });
  Refresh();
}

QWidget* CaptureDialog::BuildPromptRow() {
  prompt_kind_ = new QComboBox;
  prompt_kind_->setObjectName(QStringLiteral("capturePromptKind"));
  prompt_kind_->setAccessibleName(tr("Kind of prompt"));
  prompt_kind_->addItems({tr("Typed text"), tr("Text file"), tr("Task with a known answer"), tr("Token ids")});
  text_ = new QPlainTextEdit;
  text_->setObjectName(QStringLiteral("captureText"));
  text_->setPlaceholderText(tr("The prompt"));
  text_->setAccessibleName(tr("The prompt"));
  text_->setTabChangesFocus(true);
  text_->setFixedHeight(text_->fontMetrics().height() * 4);
  prompt_file_ = new QLineEdit;
  prompt_file_->setObjectName(QStringLiteral("capturePromptFile"));
  ids_ = new QLineEdit;
  ids_->setObjectName(QStringLiteral("captureIds"));
  ids_->setAccessibleName(tr("Token ids"));
  ids_->setPlaceholderText(tr("Such as 1,5,17: used as given, without the model's tokenizer"));
  task_ = new QComboBox;
  task_->setObjectName(QStringLiteral("captureTask"));
  task_->setAccessibleName(tr("Task"));
  for (const std::string& name : workbench_->task_names()) {
    task_->addItem(QString::fromStdString(name));
    task_->setItemData(task_->count() - 1, QString::fromStdString(workbench_->task_help(name)), Qt::ToolTipRole);
  }
  const auto explain = [this] { task_->setToolTip(task_->currentData(Qt::ToolTipRole).toString()); };
  connect(task_, &QComboBox::currentIndexChanged, this, explain);
  explain();
  length_ = new QSpinBox;
  length_->setObjectName(QStringLiteral("captureLength"));
  length_->setAccessibleName(tr("Length of the prompt"));
  length_->setRange(16, 1 << 20);
  length_->setSingleStep(1024);
  length_->setValue(4096);
  length_->setSuffix(tr(" tokens"));
  length_->setGroupSeparatorShown(true);
  length_->setLocale(QLocale(QLocale::English, QLocale::UnitedStates));  // "4,096", as CountText

  auto* task_page = new QWidget;
  auto* task_layout = new QHBoxLayout(task_page);
  task_layout->setContentsMargins(0, 0, 0, 0);
  task_layout->addWidget(task_, 1);
  task_layout->addWidget(length_);
  auto* pages = new QStackedWidget;
  pages->addWidget(text_);
  pages->addWidget(WithButton(prompt_file_, tr("File of the prompt"), [this] {
    const QString path = QFileDialog::getOpenFileName(this, tr("Prompt"), prompt_file_->text());
    if (!path.isEmpty()) prompt_file_->setText(path);
  }));
  pages->addWidget(task_page);
  pages->addWidget(ids_);
  // As high as the page on show: a line in the middle of the editor's height would lie apart from its list.
  connect(prompt_kind_, &QComboBox::currentIndexChanged, pages, [pages](int kind) {
    pages->setCurrentIndex(kind);
    const QWidget* page = pages->currentWidget();
    pages->setFixedHeight(page->sizeHint().expandedTo(page->minimumSize()).boundedTo(page->maximumSize()).height());
  });
  prompt_kind_->setCurrentIndex(kTask);

  auto* row = new QWidget;
  auto* layout = new QVBoxLayout(row);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(prompt_kind_);
  layout->addWidget(pages);
  return row;
}

void CaptureDialog::SetModelDir(const QString& model_dir) {
  model_dir_->setText(model_dir);
  DescribeModel();
}

void CaptureDialog::DescribeModel() {
  if (asked_dir_ == model_dir_->text() && !asked_dir_.isEmpty()) return;
  asked_dir_ = model_dir_->text();
  model_.reset();
  model_label_->setPalette(palette());
  model_label_->setText(tr("Reading the model folder…"));
  workbench_->DescribeModel(
      model_dir_->text().toStdString(),
      WhileAlive(this,
                 [this, asked = asked_dir_](const ModelDescription& model) {
                   if (asked != asked_dir_) return;  // of a folder that was typed over
                   model_ = model;
                   model_label_->setText(tr("%1, %2 M parameters, %3 layers, %4 query heads over %5 KV heads of %6, %7")
                                             .arg(QString::fromStdString(model.model_type))
                                             .arg(static_cast<double>(model.num_parameters) / 1e6, 0, 'f', 1)
                                             .arg(model.num_layers)
                                             .arg(model.num_qo_heads)
                                             .arg(model.num_kv_heads)
                                             .arg(model.head_dim)
                                             .arg(QString::fromStdString(model.dtype)));
                   if (!model.why_not_shown.empty())
                     model_label_->setText(model_label_->text() + u'\n' + Shown(model.why_not_shown));
                   Refresh();
                 }),
      WhileAlive(this, [this, asked = asked_dir_](const std::string& sentence) {
        if (asked != asked_dir_) return;
        model_label_->setText(Shown(sentence));
        model_label_->setPalette(ErrorPalette(palette()));
        asked_dir_.clear();  // it may be put right in place
        Refresh();
      }));
  Refresh();
}

CaptureSettings CaptureDialog::Settings() const {
  CaptureSettings settings;
  settings.model_dir = model_dir_->text().toStdString();
  switch (prompt_kind_->currentIndex()) {
    case kText:
      settings.prompt_text = text_->toPlainText().toStdString();
      break;
    case kFile:
      settings.prompt_file = prompt_file_->text().toStdString();
      break;
    case kIds:
      settings.prompt_ids = ParseTokenIds(ids_->text()).value_or(std::vector<int32_t>{});
      break;
    default:
      settings.task = task_->currentText().toStdString();
  }
  settings.task_length = length_->value();
  settings.layers = layers_->text().remove(u' ').toStdString();
  (heads_kind_->currentIndex() == kKvHeads ? settings.kv_heads : settings.heads) =
      heads_->text().remove(u' ').toStdString();
  settings.rows = rows_->text().trimmed().toStdString();
  settings.decode_tokens = decode_->value();
  for (qsizetype i = 0; i < record_.size(); ++i) {
    if (record_[i]->isChecked()) settings.record.push_back(recordable_[static_cast<size_t>(i)]);
  }
  settings.dtype = kTypes[static_cast<size_t>(dtype_->currentIndex())];
  // Behind the devices stands the choice of none.
  settings.place_by_memory = static_cast<size_t>(device_->currentIndex()) == devices_.size();
  if (!settings.place_by_memory) settings.device = devices_[static_cast<size_t>(device_->currentIndex())];
  settings.output_path = output_->text().toStdString();
  settings.num_files = files_->value();
  return settings;
}

int64_t CaptureDialog::PromptTokens(bool* exact) const {
  *exact = prompt_kind_->currentIndex() == kTask || measured_.has_value();
  if (prompt_kind_->currentIndex() == kTask) return length_->value();
  if (prompt_kind_->currentIndex() == kIds) {
    *exact = true;
    return static_cast<int64_t>(ParseTokenIds(ids_->text()).value_or(std::vector<int32_t>{}).size());
  }
  if (measured_) return measured_->prompt_tokens;
  const qint64 bytes = prompt_kind_->currentIndex() == kFile ? QFileInfo(prompt_file_->text()).size()
                                                             : text_->toPlainText().toUtf8().size();
  return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / kBytesPerToken)) + 1;
}

QString CaptureDialog::Problem() const {
  if (!model_) return tr("Model folder: choose a folder with a model.");
  switch (prompt_kind_->currentIndex()) {
    case kText:
      if (text_->toPlainText().isEmpty()) return tr("The prompt is empty: type it above.");
      break;
    case kFile:
      if (!QFileInfo(prompt_file_->text()).isFile()) return tr("The prompt file does not exist: choose another.");
      break;
    case kIds:
      if (!ParseTokenIds(ids_->text())) return tr("Token ids: type whole numbers with commas between them.");
      break;
    default:
      break;
  }
  if (CountChosen(layers_->text(), model_->num_layers) < 1)
    return tr("Layers: must be numbers below %1, such as 0-3,7; leave empty for all.").arg(model_->num_layers);
  const int32_t num_heads = heads_kind_->currentIndex() == kKvHeads ? model_->num_kv_heads : model_->num_qo_heads;
  if (CountChosen(heads_->text(), num_heads) < 1)
    return tr("Heads: must be numbers below %1, such as 0-3,7; leave empty for all.").arg(num_heads);
  bool exact = false;
  const int64_t tokens = PromptTokens(&exact);
  if (const QString problem =
          RowsProblem(rows_->text().trimmed(), exact ? std::optional<int64_t>(tokens) : std::nullopt);
      !problem.isEmpty())
    return tr("Query rows: %1.").arg(problem);
  if (model_->max_positions > 0 && PromptTokens(&exact) + decode_->value() > model_->max_positions && exact) {
    const int64_t prompt = PromptTokens(&exact), more = decode_->value();
    if (more == 0) return tr("The prompt is longer than the model's %1 positions.").arg(model_->max_positions);
    return tr("Prompt and generated tokens (%1 + %2) exceed the model's %3 positions.")
        .arg(prompt)
        .arg(more)
        .arg(model_->max_positions);
  }
  if (output_->text().isEmpty()) return tr("Write to: choose a file.");
  // As the capture would refuse it, and the copied command.
  if (FindFileFormat(output_->text().toStdString()) != FileFormat::kHdf5)
    return tr("Write to: a trace is an HDF5 file, so its name must end in .h5 or .hdf5.");
  return {};
}

void CaptureDialog::Refresh() {
  measured_.reset();
  refused_.clear();
  ++estimate_number_;
  if (model_ && !capturing_) estimate_delay_.start();
  ShowEstimate();
}

void CaptureDialog::AskForEstimate() {
  if (!model_ || capturing_) return;
  workbench_->EstimateCapture(Settings(),
                              WhileAlive(this,
                                         [this, number = estimate_number_](const CaptureEstimate& estimate) {
                                           if (number != estimate_number_) return;  // of settings before
                                           measured_ = estimate;
                                           ShowEstimate();
                                         }),
                              WhileAlive(this, [this, number = estimate_number_](const std::string& sentence) {
                                if (number != estimate_number_) return;
                                refused_ = Shown(sentence);
                                ShowEstimate();
                              }));
}

QString CaptureDialog::EstimateText() const {
  bool exact = false;
  const int64_t tokens = PromptTokens(&exact);
  int64_t bytes = model_ ? EstimateTraceBytes(*model_, Settings(), tokens) : -1;
  if (measured_ && measured_->trace_bytes >= 0) bytes = measured_->trace_bytes;
  if (bytes < 0) return QStringLiteral("–");
  const QString count = CountText(tokens), size = QString::fromStdString(ByteText(bytes));
  QString text = exact ? tr("%1 prompt tokens, %2").arg(count, size)
                       : tr("about %1 prompt tokens and %2; counting…").arg(count, size);
  if (measured_ && measured_->memory_bytes > 0) {
    text += (measured_->on_gpu ? tr(", about %1 of GPU memory") : tr(", about %1 of memory"))
                .arg(QString::fromStdString(ByteText(measured_->memory_bytes)));
  }
  if (measured_ && measured_->seconds > 0) text += tr(", about %1").arg(FormatSeconds(measured_->seconds));
  if (measured_ && !measured_->placement.empty()) text += u'\n' + Shown(measured_->placement);
  if (!refused_.isEmpty()) text += QStringLiteral("\n") + refused_;
  return text;
}

void CaptureDialog::ShowEstimate() {
  estimate_->setText(EstimateText());
  const QString problem = Problem();
  form_->setEnabled(!capturing_);
  start_->setEnabled(!capturing_ && problem.isEmpty());
  const bool fits = prompt_kind_->currentIndex() != kText || text_->toPlainText().toUtf8().size() < kMostArgumentBytes;
  Allow(copy_, problem.isEmpty() && fits,
        problem.isEmpty() ? tr("the prompt is too long for a command line; save it and choose Text file")
                          : problem.chopped(1));
  problem_->setText(capturing_ ? QString() : problem);  // why the button sleeps
  start_->setVisible(!capturing_);
  stop_->setVisible(capturing_);
  open_->setVisible(!capturing_ && !captured_path_.isEmpty() && can_be_shown_);
  progress_->setVisible(capturing_);
}

bool CaptureDialog::AskToReplace() {
  std::vector<std::string> files = workbench_->FilesNamedFor(output_->text().toStdString());
  files.push_back(output_->text().toStdString());
  const QString shown = trace_on_show_.isEmpty() ? QString() : QFileInfo(trace_on_show_).canonicalFilePath();
  const bool on_show = !shown.isEmpty() && std::ranges::any_of(files, [&](const std::string& file) {
    return QFileInfo(QString::fromStdString(file)).canonicalFilePath() == shown;
  });
  const QString question =
      on_show ? tr("%1 is the open trace. Replace it? The window keeps showing the old one until you open the new one.")
              : tr("%1 exists. Replace it?");
  return QMessageBox::question(this, tr("Replace file"), question.arg(output_->text()),
                               QMessageBox::Yes | QMessageBox::No, QMessageBox::No) == QMessageBox::Yes;
}

void CaptureDialog::Start() {
  CaptureSettings settings = Settings();
  settings.overwrite = QFileInfo::exists(output_->text()) || !workbench_->FilesNamedFor(settings.output_path).empty();
  if (settings.overwrite && !AskToReplace()) return;
  capturing_ = true;
  stopping_ = false;
  can_be_shown_ = !model_ || model_->why_not_shown.empty();
  captured_path_.clear();
  status_->clear();
  status_->setPalette(palette());  // no longer the colour of an error before
  progress_->setRange(0, 0);
  Refresh();
  Q_EMIT Began();
  workbench_->Capture(
      settings,
      WhileAlive(this,
                 [this](const CapturedTrace& trace) {
                   captured_path_ = QString::fromStdString(trace.path);
                   const QString told = trace.cancelled ? tr("Cancelled; the tokens recorded so far are in %1 (%2)")
                                                        : tr("Trace saved to %1 (%2)");
                   QString sentence = told.arg(captured_path_, DescribeSize(trace));
                   if (!trace.placement.empty()) sentence += QStringLiteral("; ") + Shown(trace.placement);
                   if (!trace.why_no_texts.empty())
                     sentence += tr("; its tokens have no texts: ") + QString::fromStdString(trace.why_no_texts);
                   Finish(sentence, false);
                   Q_EMIT Captured(trace);
                 }),
      WhileAlive(this,
                 [this](const std::string& sentence) {
                   Finish(QString::fromStdString(sentence), true);
                   Q_EMIT Failed(QString::fromStdString(sentence));
                 }),
      WhileAlive(this, [this](const ProgressReport& report) {
        if (!capturing_ || stopping_) return;
        status_->setText(DescribeProgress(report));
        progress_->setRange(0, report.fraction < 0 ? 0 : 1000);
        if (report.fraction >= 0) progress_->setValue(static_cast<int>(1000 * report.fraction));
        Q_EMIT Progressed(report);
      }));
}

void CaptureDialog::Stop() {
  if (!capturing_) return;
  stopping_ = true;
  ProgressReport report;
  report.stage = tr("Cancelling; keeping what has been recorded…").toStdString();
  status_->setText(QString::fromStdString(report.stage));
  Q_EMIT Progressed(report);
  workbench_->CancelCapture();
}

void CaptureDialog::Finish(const QString& sentence, bool error) {
  capturing_ = false;
  progress_->setRange(0, 1000);  // an unknown share is an animation
  status_->setText(Shown(sentence));
  status_->setPalette(error ? ErrorPalette(palette()) : palette());
  Refresh();
}

QString DescribeSize(const CapturedTrace& trace) {
  return QObject::tr("%1 tokens, %2").arg(CountText(trace.num_tokens), QString::fromStdString(ByteText(trace.bytes)));
}

}  // namespace headscope::ui
