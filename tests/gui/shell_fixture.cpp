// SPDX-License-Identifier: Apache-2.0
#include "shell_fixture.h"

#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QLineEdit>
#include <QMessageBox>
#include <QTimer>
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "data/trace_writer.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_scores.h"
#include "patience.h"
#include "workbench/trace_workbench.h"

namespace headscope::gui_test {
namespace {

constexpr int32_t kLayers = 2, kQoHeads = 4, kKvHeads = 2, kHeadDim = 32;

const QString& SharedFolder() {
  static const QString folder = QStringLiteral(HEADSCOPE_BINARY_DIR "/oracle/window");
  return folder;
}

// Of the small trace, by the program that computed them: one that was built anew finds none.
app::StatisticsStore SharedStatistics() {
  return {SharedFolder().toStdString(), QCoreApplication::applicationFilePath().toStdString()};
}

bool AreOfEveryRow(const std::vector<app::KnownHead>& heads) {
  return std::ssize(heads) == kLayers * kQoHeads &&
         std::ranges::all_of(heads, [](const app::KnownHead& head) { return head.statistics.num_rows == kTokens; });
}

}  // namespace

void WriteSmallTrace(const std::string& path, int32_t window, const std::string& text, bool answered) {
  data::TraceLayout layout;
  layout.model = {.name = text.empty() ? "small" : text,
                  .model_type = "llama",
                  .config_json = "{}",
                  .weights_sha256 = std::string(64, '0'),
                  .tokenizer_sha256 = std::string(64, '0'),
                  .num_layers = kLayers,
                  .num_qo_heads = kQoHeads,
                  .num_kv_heads = kKvHeads,
                  .head_dim = kHeadDim};
  layout.layers = {0, 1};
  layout.facts.assign(2, data::UsualFacts(layout.model));
  layout.facts[1].window = window;
  layout.encoding = ElementType::kFloat32;
  layout.prompt_source = text.empty() ? "text" : text;
  layout.max_tokens = kTokens;
  if (answered) {
    layout.task_answer = " 99114";
    layout.answer_tokens = 2;
  }

  data::TraceWriter writer(path, layout, /*overwrite=*/true);
  std::vector<data::TokenRecord> tokens;
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < kTokens; ++i) {
    tokens.push_back({.id = i % 4096,
                      .phase = answered && i >= kTokens - 2 ? data::TokenPhase::kDecode : data::TokenPhase::kPrompt,
                      .step = 0,
                      .text = i == 300                    ? " needle"
                              : i == 301 && answered      ? layout.task_answer
                              : i == 301 && !text.empty() ? text
                                                          : " word" + std::to_string(i)});
    positions.push_back(i);
  }
  writer.AppendTokens(tokens);
  writer.AppendRowPositions(positions);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int32_t layer = 0; layer < kLayers; ++layer) {
    std::vector<float> q(kQoHeads * kTokens * kHeadDim), k(kKvHeads * kTokens * kHeadDim), v(k.size()),
        lse(kQoHeads * kTokens);
    for (std::vector<float>* tensor : {&q, &k, &v}) {
      for (float& value : *tensor) value = normal(random);
    }
    const auto at = [](int64_t head, int64_t token) {
      return static_cast<size_t>((head * kTokens + token) * kHeadDim);
    };
    for (int64_t token = 1; token < kTokens; ++token) {
      for (size_t i = 0; i < kHeadDim; ++i) {
        q[at(0, token) + i] = 2 * k[at(0, 0) + i];
        q[at(1, token) + i] = 2 * k[at(0, token - 1) + i];
      }
    }
    // By the program's kernel, which tests/kernels compares with float64: every test of the window begins with a
    // million scores.
    kernels::AttentionProblem problem;
    problem.num_qo_heads = kQoHeads;
    problem.num_kv_heads = kKvHeads;
    problem.head_dim = kHeadDim;
    problem.seq_q = problem.seq_k = static_cast<int32_t>(kTokens);
    problem.scale = layout.facts[0].softmax_scale;
    kernels::SetContiguousTensors(q.data(), k.data(), v.data(), &problem);
    const kernels::Status status = kernels::RowLse(problem, layer == 1 ? window : 0, {.num_threads = 1}, lse.data());
    ASSERT_TRUE(status.ok()) << status.message();
    writer.Append({.layer_slot = layer,
                   .first_token = 0,
                   .num_tokens = kTokens,
                   .first_row = 0,
                   .num_rows = kTokens,
                   .q = q.data(),
                   .k = k.data(),
                   .v = v.data(),
                   .lse = lse.data()});
  }
  if (answered) writer.SetAnswerScore(0);
  writer.Finish();
}

ShellTest::ShellTest(double least_measured_ms, KnownAtStart known) {
  WriteSmallTrace(trace_path().toStdString());
  const std::string cache_dir = File(QStringLiteral("results")).toStdString();
  if (known == KnownAtStart::kStatistics) {
    auto own = std::make_unique<app::StatisticsStore>(cache_dir, trace_path().toStdString());
    if (const std::vector<app::KnownHead> heads = SharedStatistics().Load(); AreOfEveryRow(heads)) {
      EXPECT_EQ(own->Save(heads), "");
    } else {
      first_of_its_kind_ = std::move(own);
    }
  }
  workbench_ = app::MakeTraceWorkbench(
      {.share_dir = HEADSCOPE_SOURCE_DIR "/data", .cache_dir = cache_dir, .least_measured_ms = least_measured_ms},
      [this](std::function<void()> function) { ui_thread_.Post(std::move(function)); });
}

ShellTest::~ShellTest() {
  window_.reset();
  workbench_.reset();
  if (first_of_its_kind_ == nullptr) return;
  const std::vector<app::KnownHead> heads = first_of_its_kind_->Load();
  if (!AreOfEveryRow(heads)) return;  // it ended before they were all there
  const app::StatisticsStore shared = SharedStatistics();
  for (const QFileInfo& file : QDir(SharedFolder()).entryInfoList(QDir::Files)) {  // of earlier builds
    if (file.fileName().endsWith(QStringLiteral(".json")) && file.filePath().toStdString() != shared.path())
      QFile::remove(file.filePath());
  }
  // Another test may do so at this moment; where that makes it fail, it is left to a later one.
  static_cast<void>(shared.Save(heads));
}

QString ShellTest::ShippedTrace() const {
  const QString target = QStringLiteral(HEADSCOPE_SHIPPED_TRACE_PATH), link = File(QFileInfo(target).fileName());
  QFile::link(target, link);  // fails when it is there already
  return link;
}

ui::MainWindow& ShellTest::OpenWindow(const QString& open_path) {
  CloseWindow();
  window_ = std::make_unique<ui::MainWindow>(workbench_.get(), File(QStringLiteral("session.json")));
  window_->resize(1400, 860);
  window_->show();
  window_->activateWindow();
  EXPECT_TRUE(QTest::qWaitForWindowExposed(window_.get()));
  // As a person opens a trace: the start itself goes to a head that it chooses.
  if (open_path.isEmpty()) {
    window_->OpenAtStart(open_path, QString());
  } else {
    window_->OpenPath(open_path);
  }
  return *window_;
}

void ShellTest::CloseWindow() {
  if (!window_) return;
  window_->close();
  window_.reset();
}

bool ShellTest::WaitFor(const std::function<bool()>& done, int milliseconds) {
  QElapsedTimer timer;
  timer.start();
  while (!done()) {
    if (timer.elapsed() > qint64{milliseconds} * Patience()) return false;
    QTest::qWait(1);
  }
  return true;
}

bool ShellTest::WaitForStatistics() {
  return WaitFor([this] {
    const auto all = window_->store()->AllStatistics();
    if (all.empty() || all.size() != window_->store()->trace().heads.size()) return false;
    for (const auto& statistics : all) {
      if (!window_->store()->IsExact(statistics)) return false;
    }
    return !window_->findChild<ui::ProgressStrip*>()->IsBusy();
  });
}

bool ShellTest::WaitForCanvas(int milliseconds) {
  const auto at_rest = [this] {
    return window_->canvas()->HasHead() && window_->canvas()->frames_drawn() > 0 && window_->canvas()->IsSettled();
  };
  return WaitFor(at_rest, milliseconds);
}

void ShellTest::Press(Qt::Key key, Qt::KeyboardModifiers modifiers) {
  window_->activateWindow();
  ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get()));
  QTest::keyClick(window_.get(), key, modifiers);
}

void ShellTest::AnswerFileDialog(const QString& path, const QString& kind) {
  auto* timer = new QTimer(window_.get());
  QObject::connect(timer, &QTimer::timeout, timer, [this, timer, path, kind] {
    auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
    if (dialog == nullptr) return;
    timer->deleteLater();
    kind_at_first_ = dialog->selectedNameFilter();
    auto* kinds = dialog->findChild<QComboBox*>(QStringLiteral("fileTypeCombo"));
    kinds->setCurrentIndex(kinds->findText(kind.isEmpty() ? kind_at_first_ : kind, Qt::MatchContains));
    Q_EMIT kinds->activated(kinds->currentIndex());  // as a user's choice does
    auto* name = dialog->findChild<QLineEdit*>(QStringLiteral("fileNameEdit"));
    name_at_first_ = name->text();
    name->setText(path);
    QMetaObject::invokeMethod(dialog, "accept", Qt::QueuedConnection);
  });
  timer->start(20);
}

void ShellTest::AnswerQuestion(const QString& button) {
  const auto plain = [](const QAbstractButton* of) { return of == nullptr ? QString() : of->text().remove(u'&'); };
  auto* timer = new QTimer(window_.get());
  QObject::connect(timer, &QTimer::timeout, timer, [this, timer, button, plain] {
    auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
    if (box == nullptr) return;
    timer->deleteLater();
    questions_.push_back({box->text(), plain(box->defaultButton())});
    for (QAbstractButton* candidate : box->buttons()) {
      if (plain(candidate) == button) {
        QTest::mouseClick(candidate, Qt::LeftButton);
        return;
      }
    }
    ADD_FAILURE() << "\"" << box->text().toStdString() << "\" has no button " << button.toStdString();
    box->reject();
  });
  timer->start(20);
}

}  // namespace headscope::gui_test
