// SPDX-License-Identifier: Apache-2.0
// What the tests share that reach beyond one head: methods by name, work that is waited for, command lines that are
// run.
#pragma once

#include <QDockWidget>
#include <QFile>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QRegularExpression>
#include <algorithm>
#include <string>

#include "shell_fixture.h"

namespace headscope::gui_test {

class ReachTest : public ShellTest {
 protected:
  ReachTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open(analysis::HeadId head = {0, 2}) {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    window_->store()->Select(head);
    ASSERT_TRUE(WaitForCanvas());
    canvas_ = window_->canvas();
  }
  void Use(const char* method, const std::string& parameters) {
    const auto& methods = canvas_->methods();
    const auto spec = std::find_if(methods.begin(), methods.end(), [&](const auto& one) { return one.name == method; });
    kernels::ParameterValues values(*spec);
    ASSERT_EQ(values.Parse(*spec, parameters), "");
    ASSERT_TRUE(canvas_->SetMethod(QLatin1String(method), values));
    ASSERT_TRUE(WaitForCanvas());
  }
  void Raise(const char* dock) {
    Find<QDockWidget>(dock)->raise();
    QTest::qWait(50);
  }
  bool Finish(ui::Command command) {
    window_->commands()[command]->trigger();
    auto* progress = Find<ui::ProgressStrip>("progressStrip");
    QTest::qWait(20);
    return WaitFor([&] { return !progress->IsBusy(); }, 120000);
  }
  // What a command line prints to the file after -o.
  QJsonObject RunInShell(const QString& command, const QString& file) {
    QString program = QStringLiteral(HEADSCOPE_PROGRAM);
    QProcess shell;
    shell.start(QStringLiteral("sh"), {QStringLiteral("-c"), program + command.mid(int(qstrlen("headscope"))) +
                                                                 QStringLiteral(" --quiet -o ") + file});
    EXPECT_TRUE(shell.waitForFinished(120000));
    EXPECT_EQ(shell.exitCode(), 0) << shell.readAllStandardError().toStdString();
    QFile written(file);
    EXPECT_TRUE(written.open(QIODevice::ReadOnly));
    return QJsonDocument::fromJson(written.readAll()).object();
  }
  // Without when it was written: the window's file and the command line's may be a second apart.
  static QByteArray Undated(const QByteArray& text) {
    static const QRegularExpression moment(QStringLiteral("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ"));
    return text.contains("written_at") ? QString::fromUtf8(text).replace(moment, QStringLiteral("then")).toUtf8()
                                       : text;
  }
  static QJsonObject Undated(QJsonObject document) {
    QJsonObject origin = document[QStringLiteral("origin")].toObject();
    origin.remove(QStringLiteral("written_at"));
    document[QStringLiteral("origin")] = origin;
    return document;
  }

  ui::HeadCanvas* canvas_ = nullptr;
};

}  // namespace headscope::gui_test
