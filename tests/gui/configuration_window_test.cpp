// SPDX-License-Identifier: Apache-2.0
// Heads with a method of their own, methods that are made of files, and tunings by ranges of lengths: the window finds
// what the command line finds.
#include <sys/stat.h>

#include <QAction>
#include <QClipboard>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <fstream>
#include <string>

#include "reach_fixture.h"
#include "tune_dialog.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

class ConfigurationTest : public ReachTest {
 protected:
  bool RunHeadscope(const QStringList& arguments) {
    return QProcess::execute(QStringLiteral(HEADSCOPE_PROGRAM), arguments + QStringList{QStringLiteral("--quiet")}) ==
           0;
  }
  QJsonObject Json(const QString& path) {
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::ReadOnly)) << path.toStdString();
    return QJsonDocument::fromJson(file.readAll()).object();
  }
};

TEST_F(ConfigurationTest, HeadsAreMeasuredEachWithItsOwnMethod) {
  const QString config = File(QStringLiteral("tuned.json"));
  OpenWindow(trace_path());
  ASSERT_TRUE(RunHeadscope({QStringLiteral("tune"), trace_path(), QStringLiteral("--method"), QStringLiteral("a-shape"),
                            QStringLiteral("--method"), QStringLiteral("block-sparse"), QStringLiteral("--target"),
                            QStringLiteral("cra-mean=0.8"), QStringLiteral("-o"), config}));
  // Every other head gets another method than was found.
  {
    QJsonObject json = Json(config);
    QJsonArray heads = json[QStringLiteral("heads")].toArray();
    for (qsizetype i = 0; i < heads.size(); i += 2) {
      QJsonObject head = heads[i].toObject();
      head[QStringLiteral("method")] = QStringLiteral("block-sparse");
      head[QStringLiteral("parameters")] = QJsonObject{{QStringLiteral("n_blocks"), 1 + i}};
      heads[i] = head;
    }
    json[QStringLiteral("heads")] = heads;
    QFile file(config);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly | QIODevice::Truncate));
    file.write(QJsonDocument(json).toJson());
  }
  Open();
  AnswerFileDialog(config);
  window_->commands()[Command::kConfiguration]->trigger();
  const ui::HeadConfiguration& configuration = window_->state()->configuration;
  ASSERT_TRUE(WaitFor([&] { return configuration.in_use(); }));
  EXPECT_EQ(configuration.num_heads(), 8U);
  EXPECT_TRUE(window_->commands()[Command::kConfiguration]->isChecked());
  // The panel goes with the head.
  for (const QJsonValue value : Json(config)[QStringLiteral("heads")].toArray()) {
    const QJsonObject head = value.toObject();
    const HeadId id{head[QStringLiteral("layer")].toInt(), head[QStringLiteral("head")].toInt()};
    window_->store()->Select(id);
    EXPECT_EQ(QString::fromStdString(window_->state()->trial.method()->name),
              head[QStringLiteral("method")].toString());
  }
  ASSERT_TRUE(Finish(Command::kSweepMeasure));
  ASSERT_TRUE(WaitFor([&] { return !window_->state()->sweep.running(); }, 120000));
  ASSERT_EQ(window_->state()->sweep.num_done(), 8U) << window_->state()->sweep.Summary().toStdString();
  window_->commands()[Command::kCopyConfigurationCommand]->trigger();
  const QJsonArray told =
      RunInShell(QApplication::clipboard()->text(), File(QStringLiteral("told.json")))[QStringLiteral("results")]
          .toArray();
  size_t compared = 0;
  for (const QJsonValue value : told) {
    const QJsonObject run = value.toObject();
    if (run[QStringLiteral("method")].toString() == QStringLiteral("dense")) continue;
    const HeadId id{run[QStringLiteral("layer")].toInt(), run[QStringLiteral("head")].toInt()};
    SCOPED_TRACE(testing::Message() << id.layer << ':' << id.head);
    const ui::HeadResult* const result = window_->store()->ResultOf(id);
    ASSERT_NE(result, nullptr);
    EXPECT_NEAR(result->kept_fraction, run[QStringLiteral("kept_fraction")].toDouble(), 1e-9);
    EXPECT_NEAR(result->relative_error, run[QStringLiteral("relative_error")].toDouble(), 1e-6);
    ++compared;
  }
  EXPECT_EQ(compared, 8U);
  window_->commands()[Command::kConfiguration]->trigger();
  EXPECT_FALSE(configuration.in_use());
  EXPECT_FALSE(window_->commands()[Command::kConfiguration]->isChecked());

  // A file that is none says so, and the mark stays off.
  AnswerFileDialog(trace_path());
  window_->commands()[Command::kConfiguration]->trigger();
  ASSERT_TRUE(WaitFor([&] { return Find<QLabel>("noticeText")->text().contains(QStringLiteral("small.h5")); }));
  EXPECT_FALSE(window_->commands()[Command::kConfiguration]->isChecked());
}

TEST_F(ConfigurationTest, AMaskOfAFileIsAMethodOfThePanel) {
  OpenWindow(trace_path());
  const QString mask = File(QStringLiteral("mask.h5"));
  ASSERT_TRUE(
      RunHeadscope({QStringLiteral("compare"), trace_path(), QStringLiteral("--method"),
                    QStringLiteral("a-shape:n_sink=8,n_local=40"), QStringLiteral("--measure"), QStringLiteral("head"),
                    QStringLiteral("--repeat"), QStringLiteral("1"), QStringLiteral("--save-index"), mask,
                    QStringLiteral("-o"), File(QStringLiteral("runs.json"))}));
  Open();
  Use("a-shape", "n_sink=8,n_local=40");
  const double kept = canvas_->mask()->summary.kept_fraction;
  AnswerFileDialog(mask);
  window_->commands()[Command::kMethodFile]->trigger();
  const auto name = [this] { return QString::fromStdString(window_->state()->trial.method()->name); };
  ASSERT_TRUE(WaitFor([&] { return name().startsWith(QStringLiteral("mask-file[")); }))
      << Find<QLabel>("noticeText")->text().toStdString();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NE(canvas_->mask(), nullptr);
  EXPECT_EQ(canvas_->mask()->summary.kept_fraction, kept);
  window_->commands()[Command::kCopyViewCommand]->trigger();
  EXPECT_TRUE(QApplication::clipboard()->text().contains(QStringLiteral("mask-file:path=") + mask))
      << QApplication::clipboard()->text().toStdString();
  // It is there again when a session is.
  CloseWindow();
  OpenWindow({});
  ASSERT_TRUE(WaitFor([&] { return name().startsWith(QStringLiteral("mask-file[")); }));
}

// A run in the file beside a trace names any path, and a click on it reads that.
TEST_F(ConfigurationTest, APipeIsNoMethodAndHoldsNobodyUp) {
  OpenWindow(trace_path());
  Open();
  const QString pipe = File(QStringLiteral("pipe"));
  ASSERT_EQ(mkfifo(pipe.toUtf8().constData(), 0600), 0);
  const std::string before = window_->state()->trial.method()->name;
  for (const char* kind : {"mask-file", "duo-attention"}) {
    Find<QLabel>("noticeText")->clear();
    window_->state()->SetMethod({QStringLiteral("%1[%2]").arg(QLatin1String(kind), pipe), {}, 0.9});
    ASSERT_TRUE(WaitFor([&] {
      return Find<QLabel>("noticeText")->text().contains(QStringLiteral("pipe: is not a regular file"));
    })) << Find<QLabel>("noticeText")->text().toStdString();
  }
  EXPECT_EQ(window_->state()->trial.method()->name, before);
}

TEST_F(ConfigurationTest, DuoAttentionsNumbersMakeAMethodOfEitherPhase) {
  Open();
  const QString numbers = File(QStringLiteral("full_attention_heads.tsv"));
  const int32_t layers = window_->store()->trace().num_layers, kv_heads = window_->store()->trace().num_kv_heads;
  {
    std::ofstream file(numbers.toStdString());
    for (int32_t layer = 0; layer < layers; ++layer) {
      for (int32_t head = 0; head < kv_heads; ++head) file << (head == 0 ? "" : "\t") << (head % 2 == 0 ? 0.9 : 0.1);
      file << '\n';
    }
  }
  AnswerFileDialog(numbers, QStringLiteral("DuoAttention"));
  window_->commands()[Command::kMethodFile]->trigger();
  const auto& trial = window_->state()->trial;
  ASSERT_TRUE(WaitFor([&] { return trial.method()->name.starts_with("duo-attention["); }))
      << Find<QLabel>("noticeText")->text().toStdString();
  const std::string name = trial.method()->name;
  EXPECT_FALSE(trial.is_decode());
  ASSERT_TRUE(window_->state()->trial.SelectMethod("decode/" + name));
  EXPECT_TRUE(trial.is_decode());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_NE(trial.mask(), std::nullopt) << trial.mask_error();
}

TEST_F(ConfigurationTest, TheTuningDialogTunesRangesOfLengths) {
  Open();
  const QString shorter = File(QStringLiteral("shorter.h5"));
  ASSERT_TRUE(RunHeadscope({QStringLiteral("export"), trace_path(), QStringLiteral("--tokens"), QStringLiteral("0:300"),
                            QStringLiteral("-o"), shorter}));
  Use("streaming-llm", "n_dilated=0");
  window_->commands()[Command::kTuneDialog]->trigger();
  auto* dialog = Find<ui::TuneDialog>("tuneDialog");
  ASSERT_TRUE(WaitFor([&] { return dialog->isVisible(); }));
  AnswerFileDialog(shorter);
  Find<QPushButton>("tuneAddTrace")->click();
  ASSERT_EQ(Find<QListWidget>("tuneTraces")->count(), 1);
  Find<QLineEdit>("tuneRanges")->setText(QStringLiteral("400, 100"));
  EXPECT_FALSE(Find<QPushButton>("tuneStart")->isEnabled()) << "lengths rise";
  Find<QLineEdit>("tuneRanges")->setText(QStringLiteral("301"));
  ASSERT_TRUE(Find<QPushButton>("tuneStart")->isEnabled());
  Find<QPushButton>("tuneCopy")->click();
  const QString command = QApplication::clipboard()->text();
  Find<QPushButton>("tuneStart")->click();
  ASSERT_TRUE(WaitFor([&] { return !window_->state()->sweep.running(); }, 120000));
  ASSERT_EQ(window_->state()->sweep.Tuned().size(), 16U) << window_->state()->sweep.Summary().toStdString();
  const QString saved = File(QStringLiteral("ranges.json"));
  AnswerFileDialog(saved);
  window_->commands()[Command::kExportTuning]->trigger();
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved); }));
  const QJsonObject told = RunInShell(command, File(QStringLiteral("command.json"))), exported = Json(saved);
  EXPECT_EQ(exported[QStringLiteral("schema")], QJsonValue(QStringLiteral("headscope-tuning-3")));
  EXPECT_EQ(told[QStringLiteral("ranges")].toArray().size(), 2);
  EXPECT_EQ(Undated(exported), Undated(told));
  // What was tuned is a configuration: of the open trace's range.
  window_->commands()[Command::kUseTuned]->trigger();
  EXPECT_EQ(window_->state()->configuration.num_heads(), 8U);
}

}  // namespace
}  // namespace headscope::gui_test
