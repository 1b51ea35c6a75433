// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <QRegularExpression>
#include <QStringList>

namespace headscope::ui {
namespace {

QString MethodArgument(const QString& name, const QString& parameters) {
  return parameters.isEmpty() ? name : name + u':' + parameters;
}

QString HeadText(analysis::HeadId head) {
  return QStringLiteral("%1:%2").arg(head.layer).arg(head.head);
}

QString Joined(QStringList arguments) {
  for (QString& argument : arguments) argument = ShellQuoted(argument);
  return arguments.join(u' ');
}

}  // namespace

QString ShellQuoted(const QString& argument) {
  static const QRegularExpression plain(QStringLiteral("^[A-Za-z0-9_@%+=:,./-]+$"));
  if (plain.match(argument).hasMatch()) return argument;
  QString quoted = argument;
  return u'\'' + quoted.replace(u'\'', QStringLiteral("'\\''")) + u'\'';
}

QString CompareCommand(const QString& trace_path, const analysis::MethodResult& run) {
  // Dense attention is measured beside every method, and as one by itself.
  const QString method = QString::fromStdString(run.method);
  QStringList arguments = {QStringLiteral("headscope"),
                           QStringLiteral("compare"),
                           trace_path,
                           QStringLiteral("--method"),
                           MethodArgument(method, QString::fromStdString(run.parameters)),
                           QStringLiteral("--heads"),
                           HeadText(run.head)};
  if (run.measured_heads == 1) arguments += {QStringLiteral("--measure"), QStringLiteral("head")};
  if (run.attend.repeats > 0) arguments += {QStringLiteral("--repeat"), QString::number(run.attend.repeats)};
  if (run.phase == "decode") arguments += {QStringLiteral("--decode-rows"), QString::number(run.num_rows)};
  if (!run.device.empty() && run.device != "cpu") arguments += {QStringLiteral("--device"), QStringLiteral("cuda")};
  return Joined(arguments);
}

QString RenderCommand(const QString& trace_path, const MapPart& part) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("render"), trace_path, QStringLiteral("--head"),
                           HeadText(part.head)};
  if (!part.method.isEmpty()) {
    arguments += {QStringLiteral("--view"), QStringLiteral("mask"), QStringLiteral("--method"),
                  MethodArgument(part.method, part.parameters)};
  }
  if (part.row_end > 0) {
    arguments += {QStringLiteral("--rows"), QStringLiteral("%1:%2").arg(part.row_begin).arg(part.row_end),
                  QStringLiteral("--cols"), QStringLiteral("%1:%2").arg(part.column_begin).arg(part.column_end)};
  }
  arguments += {QStringLiteral("--size"),      QStringLiteral("%1x%2").arg(part.width).arg(part.height),
                QStringLiteral("--reduction"), part.mean ? QStringLiteral("mean") : QStringLiteral("max"),
                QStringLiteral("--scale"),     part.logarithmic ? QStringLiteral("log") : QStringLiteral("linear")};
  if (!part.color_map.isEmpty()) arguments += {QStringLiteral("--color-map"), part.color_map};
  if (part.dark) arguments += {QStringLiteral("--ground"), QStringLiteral("dark")};
  arguments += {QStringLiteral("-o"), QStringLiteral("head-%1-%2.png").arg(part.head.layer).arg(part.head.head)};
  return Joined(arguments);
}

QString TuneCommand(const QString& trace_path, const kernels::MethodSpec& method,
                    const kernels::ParameterValues& values, double target) {
  QStringList others;
  for (const kernels::ParameterSpec& parameter : method.parameters) {
    if (parameter.role != kernels::ParameterRole::kOther) continue;
    others.append(QStringLiteral("%1=%2").arg(
        QString::fromStdString(parameter.name),
        QString::fromStdString(kernels::ValueText(parameter, values.Real(parameter.name)))));
  }
  return Joined({QStringLiteral("headscope"), QStringLiteral("tune"), trace_path, QStringLiteral("--method"),
                 MethodArgument(QString::fromStdString(method.name), others.join(u',')), QStringLiteral("--target"),
                 QStringLiteral("cra-p5=%1").arg(target)});
}

QString AnalyzeCommand(const QString& trace_path, const QString& output) {
  return Joined({QStringLiteral("headscope"), QStringLiteral("analyze"), trace_path, QStringLiteral("-o"), output});
}

}  // namespace headscope::ui
