// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <QObject>
#include <QRegularExpression>
#include <QStringList>
#include <algorithm>
#include <cmath>

#include "base/device.h"
#include "base/element_type.h"

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
  // Anchored, as `$` also matches before a newline at the end.
  static const QRegularExpression plain(QRegularExpression::anchoredPattern(QStringLiteral("[A-Za-z0-9_@%+=:,./-]+")));
  if (plain.match(argument).hasMatch()) return argument;
  QString quoted = argument;
  return u'\'' + quoted.replace(u'\'', QStringLiteral("'\\''")) + u'\'';
}

QString CompareCommand(const QString& trace_path, const QString& method, const analysis::MethodResult& run) {
  return TradeOffCommand(trace_path, {method}, run);
}

QString KeptMassCommand(const QString& trace_path, analysis::HeadId head, const QString& method, int64_t decode_rows,
                        bool alone) {
  QStringList arguments = {QStringLiteral("headscope"),
                           QStringLiteral("compare"),
                           trace_path,
                           QStringLiteral("--method"),
                           method,
                           QStringLiteral("--heads"),
                           HeadText(head)};
  if (alone) arguments += {QStringLiteral("--measure"), QStringLiteral("head")};
  if (decode_rows > 0) arguments += {QStringLiteral("--decode-rows"), QString::number(decode_rows)};
  // Times are not asked for, and one is the least.
  arguments += {QStringLiteral("--repeat"), QStringLiteral("1"), QStringLiteral("--save-rows"),
                QStringLiteral("kept-mass-%1-%2.csv").arg(head.layer).arg(head.head)};
  return Joined(arguments);
}

QString TradeOffCommand(const QString& trace_path, const QStringList& methods, const analysis::MethodResult& run) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("compare"), trace_path};
  for (const QString& method : methods) arguments += {QStringLiteral("--method"), method};
  arguments += {QStringLiteral("--heads"), HeadText(run.head)};
  if (run.measured.measure != analysis::Measure::kLayer)
    arguments += {QStringLiteral("--measure"), QStringLiteral("head")};
  if (run.attend.repeats > 0) arguments += {QStringLiteral("--repeat"), QString::number(run.attend.repeats)};
  if (run.phase == kernels::Phase::kDecode)
    arguments += {QStringLiteral("--decode-rows"), QString::number(run.num_rows)};
  if (run.device.is_gpu())
    arguments += {QStringLiteral("--device"), QString::fromStdString(DeviceText(run.device.device))};
  return Joined(arguments);
}

QString RenderCommand(const QString& trace_path, const MapDrawing& drawing, bool alone) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("render"), trace_path, QStringLiteral("--head"),
                           HeadText(drawing.head)};
  if (drawing.other_head) {
    arguments += {QStringLiteral("--view"), QStringLiteral("other"), QStringLiteral("--other-head"),
                  HeadText(*drawing.other_head)};
    if (!drawing.other_trace.empty())
      arguments += {QStringLiteral("--other"), QString::fromStdString(drawing.other_trace)};
  } else if (!drawing.other_method.empty()) {
    arguments += {
        QStringLiteral("--view"),
        QStringLiteral("overlap"),
        QStringLiteral("--method"),
        MethodArgument(QString::fromStdString(drawing.method), QString::fromStdString(drawing.parameters)),
        QStringLiteral("--other-method"),
        MethodArgument(QString::fromStdString(drawing.other_method), QString::fromStdString(drawing.other_parameters))};
  } else if (!drawing.method.empty()) {
    arguments += {QStringLiteral("--view"), drawing.lost ? QStringLiteral("lost") : QStringLiteral("overlay"),
                  QStringLiteral("--method"),
                  MethodArgument(QString::fromStdString(drawing.method), QString::fromStdString(drawing.parameters))};
  }
  if (alone) arguments += {QStringLiteral("--measure"), QStringLiteral("head")};
  if (drawing.row_end > 0) {
    arguments += {QStringLiteral("--rows"), QStringLiteral("%1:%2").arg(drawing.row_begin).arg(drawing.row_end),
                  QStringLiteral("--cols"), QStringLiteral("%1:%2").arg(drawing.column_begin).arg(drawing.column_end)};
  }
  arguments += {QStringLiteral("--size"),      QStringLiteral("%1x%2").arg(drawing.width).arg(drawing.height),
                QStringLiteral("--reduction"), drawing.mean ? QStringLiteral("mean") : QStringLiteral("max"),
                QStringLiteral("--scale"),     drawing.logarithmic ? QStringLiteral("log") : QStringLiteral("linear")};
  if (drawing.range) {
    const auto end = [](float log2) { return QString::number(std::exp2(static_cast<double>(log2)), 'g', 12); };
    arguments +=
        {QStringLiteral("--range"), end(drawing.range->minimum_log2) + u':' + end(drawing.range->maximum_log2)};
  }
  if (!drawing.color_map.empty())
    arguments += {QStringLiteral("--color-map"), QString::fromStdString(drawing.color_map)};
  if (drawing.profiles) arguments += QStringLiteral("--profiles");
  if (drawing.dark) arguments += {QStringLiteral("--ground"), QStringLiteral("dark")};
  arguments += {QStringLiteral("-o"), QStringLiteral("head-%1-%2.png").arg(drawing.head.layer).arg(drawing.head.head)};
  return Joined(arguments);
}

QString FigureCommand(const QString& trace_path, const FigureDrawing& drawing,
                      const std::vector<ClassThreshold>& classes, const QString& runs_path) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("render"), trace_path};
  if (!drawing.other_trace.empty()) arguments += QString::fromStdString(drawing.other_trace);
  arguments += {QStringLiteral("--figure"), QString::fromStdString(drawing.name)};
  if (!drawing.heads.empty()) {
    QStringList heads;
    for (const analysis::HeadId& head : drawing.heads) heads.append(HeadText(head));
    arguments += {QStringLiteral("--heads"), heads.join(u',')};
  }
  QStringList thresholds;
  for (size_t i = 0; i < std::min(classes.size(), drawing.class_thresholds.size()); ++i) {
    const double value = drawing.class_thresholds[i];
    if (value != classes[i].value)
      thresholds.append(QString::fromStdString(classes[i].name) + u'=' + QString::number(value, 'g', 12));
  }
  if (!thresholds.isEmpty()) arguments += {QStringLiteral("--class-threshold"), thresholds.join(u',')};
  if (drawing.runs != nullptr && !drawing.runs->empty() && !runs_path.isEmpty())
    arguments += {QStringLiteral("--runs"), runs_path};
  arguments += {QStringLiteral("--max-rows"), QString::number(drawing.max_rows)};
  if (drawing.height > 0)
    arguments += {QStringLiteral("--size"), QStringLiteral("%1x%2").arg(drawing.width).arg(drawing.height)};
  arguments += {QStringLiteral("-o"), QString::fromStdString(drawing.name) + QStringLiteral(".svg")};
  return Joined(arguments);
}

QString AnalyzeCommand(const QString& trace_path, const ClassSettings& classes) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("analyze"), trace_path}, thresholds, alarms;
  const auto setting = [](const std::string& name, double value) {
    return QString::fromStdString(name) + u'=' + QString::number(value, 'g', 12);
  };
  for (size_t i = 0; i < classes.values().size(); ++i) {
    const ClassThreshold& usual = classes.defaults()[i];
    if (classes.values()[i] != usual.value) thresholds.append(setting(usual.name, classes.values()[i]));
  }
  for (const ClassSettings::Alarm& alarm : classes.alarms()) {
    if (alarm.value != alarm.metric.alarm) alarms.append(setting(alarm.metric.name, alarm.value));
  }
  if (!thresholds.isEmpty()) arguments += {QStringLiteral("--class-threshold"), thresholds.join(u',')};
  if (!alarms.isEmpty()) arguments += {QStringLiteral("--alarm"), alarms.join(u',')};
  return Joined(arguments);
}

QString TraceDifferenceCommand(const QString& trace_path, const QString& other_path, const QString& metric) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("diff"), trace_path, other_path};
  if (!metric.isEmpty()) arguments += {QStringLiteral("--metrics"), metric};
  return Joined(arguments);
}

QString MaskDifferenceCommand(const QString& trace_path, analysis::HeadId head, const QString& method,
                              const QString& other_method) {
  return Joined({QStringLiteral("headscope"), QStringLiteral("diff"), trace_path, QStringLiteral("--method"), method,
                 QStringLiteral("--method"), other_method, QStringLiteral("--heads"), HeadText(head)});
}

QString CaptureCommand(const CaptureSettings& settings) {
  const auto text = [](const std::string& of) { return QString::fromStdString(of); };
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("capture"), text(settings.model_dir)};
  if (!settings.task.empty()) {
    arguments += {QStringLiteral("--task"), text(settings.task), QStringLiteral("--length"),
                  QString::number(settings.task_length)};
  } else if (!settings.prompt_ids.empty()) {
    QStringList ids;
    for (const int32_t id : settings.prompt_ids) ids.append(QString::number(id));
    arguments += {QStringLiteral("--tokens"), ids.join(u',')};
  } else if (!settings.prompt_file.empty()) {
    arguments += {QStringLiteral("--prompt"), text(settings.prompt_file)};
  } else {
    arguments += {QStringLiteral("--text"), text(settings.prompt_text)};
  }
  const auto add_unless_empty = [&](const char* option, const std::string& value) {
    if (!value.empty()) arguments += {QLatin1String(option), text(value)};
  };
  add_unless_empty("--layers", settings.layers);
  add_unless_empty("--heads", settings.heads);
  add_unless_empty("--kv-heads", settings.kv_heads);
  if (settings.rows != CaptureSettings().rows) add_unless_empty("--rows", settings.rows);
  if (settings.decode_tokens > 0) arguments += {QStringLiteral("--decode"), QString::number(settings.decode_tokens)};
  QStringList record;
  for (const Recordable& what : settings.record) record.append(text(what.name));
  if (!record.isEmpty()) arguments += {QStringLiteral("--record"), record.join(u',')};
  if (settings.dtype) arguments += {QStringLiteral("--dtype"), text(std::string(ComputeTypeName(settings.dtype)))};
  if (settings.place_by_memory) {
    arguments += {QStringLiteral("--device"), QStringLiteral("auto")};
  } else if (settings.device != kCpu) {
    arguments += {QStringLiteral("--device"), text(DeviceText(settings.device))};
  }
  if (settings.num_files > 1) arguments += {QStringLiteral("--files"), QString::number(settings.num_files)};
  arguments += {QStringLiteral("-o"), text(settings.output_path)};
  return Joined(arguments);
}

QString QuantiseCommand(const QString& trace_path, analysis::HeadId head, const QuantiseSettings& settings) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("quantise"), trace_path,
                           QStringLiteral("--heads"), HeadText(head)};
  const auto add_list = [&](const char* option, const std::vector<std::string>& names) {
    QStringList list;
    for (const std::string& name : names) list.append(QString::fromStdString(name));
    if (!list.isEmpty()) arguments += {QLatin1String(option), list.join(u',')};
  };
  add_list("--formats", settings.formats);
  add_list("--scales", settings.scales);
  if (settings.as_they_are != settings.turned)
    arguments += {QStringLiteral("--hadamard"), settings.turned ? QStringLiteral("on") : QStringLiteral("off")};
  return Joined(arguments);
}

QString TuneCommand(const QString& trace_path, const std::vector<kernels::MethodSpec>& registry,
                    const TuneSettings& settings, const std::vector<analysis::HeadId>& heads) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("tune"), trace_path};
  for (const std::string& trace : settings.traces) arguments += QString::fromStdString(trace);
  for (const TuneSettings::Method& method : settings.methods) {
    const auto spec =
        std::find_if(registry.begin(), registry.end(), [&](const auto& one) { return one.name == method.name; });
    if (spec == registry.end()) continue;
    QStringList others;
    for (const kernels::ParameterSpec& parameter : spec->parameters) {
      if (parameter.role != kernels::ParameterRole::kOther && !settings.from_budgets) continue;
      others.append(QStringLiteral("%1=%2").arg(
          QString::fromStdString(parameter.name),
          QString::fromStdString(kernels::ValueText(parameter, method.values.Real(parameter.name)))));
    }
    arguments += {QStringLiteral("--method"), MethodArgument(QString::fromStdString(method.name), others.join(u','))};
  }
  arguments += {QStringLiteral("--target"), QString::fromStdString(settings.target.Text())};
  if (settings.unit != TuneSettings::Unit::kHead) {
    const bool per_layer = settings.unit == TuneSettings::Unit::kLayer;
    arguments += {QStringLiteral("--per"), per_layer ? QStringLiteral("layer") : QStringLiteral("model")};
  }
  if (!settings.ranges.empty()) {
    QStringList edges;
    for (const std::string& edge : settings.ranges) edges.append(QString::fromStdString(edge));
    arguments += {QStringLiteral("--ranges"), edges.join(u',')};
  }
  for (const std::string& check : settings.checks)
    arguments += {QStringLiteral("--check"), QString::fromStdString(check)};
  if (settings.choose != TuneSettings::Choice::kUsual) {
    const bool by_mass = settings.choose == TuneSettings::Choice::kMass;
    arguments += {QStringLiteral("--choose"), by_mass ? QStringLiteral("mass") : QStringLiteral("error")};
  }
  if (!settings.check_rows.empty())
    arguments += {QStringLiteral("--check-rows"), QString::fromStdString(settings.check_rows)};
  if (settings.decode_rows != TuneSettings().decode_rows)
    arguments += {QStringLiteral("--decode-rows"), QString::number(settings.decode_rows)};
  if (settings.in_group) arguments += QStringLiteral("--group");
  if (!heads.empty()) {
    QStringList names;
    for (const analysis::HeadId& head : heads) names.append(HeadText(head));
    arguments += {QStringLiteral("--heads"), names.join(u',')};
  }
  return Joined(arguments);
}

QString ConfigurationCommand(const QString& trace_path, const QString& config_path,
                             const std::vector<HeadSetting>& heads, size_t num_recorded) {
  QStringList arguments = {QStringLiteral("headscope"), QStringLiteral("compare"), trace_path,
                           QStringLiteral("--config"), config_path};
  if (heads.size() != num_recorded) {
    QStringList names;
    for (const HeadSetting& setting : heads) names.append(HeadText(setting.head));
    arguments += {QStringLiteral("--heads"), names.join(u',')};
  }
  return Joined(arguments);
}

}  // namespace headscope::ui
