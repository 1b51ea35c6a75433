// SPDX-License-Identifier: Apache-2.0
#include "kept_tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/device.h"
#include "base/errors.h"
#include "run_queue.h"

namespace headscope::ui {
namespace {

// No tuning has more of these; a file that does was not written by a window.
constexpr qsizetype kMostTexts = 1024, kMostTextLength = 1 << 14, kMostPoints = 1024;

constexpr std::array kUnits = {"head", "layer", "model"};
constexpr std::array kChoices = {"usual", "mass", "error"};

const kernels::MethodSpec* Find(const std::vector<kernels::MethodSpec>& methods, const std::string& name) {
  const auto found = std::ranges::find(methods, name, &kernels::MethodSpec::name);
  return found == methods.end() ? nullptr : &*found;
}

QJsonArray Texts(const std::vector<std::string>& texts) {
  QJsonArray json;
  for (const std::string& text : texts) json.append(QString::fromStdString(text));
  return json;
}

QJsonArray AsJson(analysis::HeadId head) {
  return {head.layer, head.head};
}

// JSON has no word for these.
QJsonValue AsJson(double number) {
  if (std::isnan(number)) return QJsonValue::Null;
  if (std::isinf(number)) return number > 0 ? QStringLiteral("inf") : QStringLiteral("-inf");
  return number;
}

QString ValuesText(const kernels::ParameterValues& values, const kernels::MethodSpec* spec) {
  return spec == nullptr ? QString() : QString::fromStdString(values.ToString(*spec));
}

// Most bins are empty: "97:3 99:509", and a file of thousands of heads stays small.
QString BinsText(const analysis::MassDistribution& mass) {
  QStringList bins;
  for (size_t bin = 0; bin < mass.bins.size(); ++bin) {
    if (mass.bins[bin] != 0) bins.append(QStringLiteral("%1:%2").arg(bin).arg(mass.bins[bin]));
  }
  return bins.join(u' ');
}

// Calls visit(name, number) for the numbers of a distribution that are real.
template <typename Mass, typename Visit>
void VisitMass(Mass& mass, const Visit& visit) {
  // Compiles only while these are all members.
  auto& [bins, num_rows, minimum, mean, fifth_percentile, first_percentile, first_quartile, median, worst_row] = mass;
  static_cast<void>(bins);
  static_cast<void>(num_rows);
  static_cast<void>(worst_row);
  visit("minimum", minimum);
  visit("mean", mean);
  visit("fifth_percentile", fifth_percentile);
  visit("first_percentile", first_percentile);
  visit("first_quartile", first_quartile);
  visit("median", median);
}

QJsonObject AsJson(const analysis::SettingQuality& quality) {
  const auto& [reached, kept_fraction, mass, relative_error, time_share, work_share] = quality;
  QJsonObject distribution{{QStringLiteral("bins"), BinsText(mass)},
                           {QStringLiteral("rows"), qint64{mass.num_rows}},
                           {QStringLiteral("worst_row"), qint64{mass.worst_row}}};
  VisitMass(mass, [&](const char* name, double number) { distribution[QLatin1String(name)] = AsJson(number); });
  return {{QStringLiteral("reached"), reached},
          {QStringLiteral("kept_fraction"), AsJson(kept_fraction)},
          {QStringLiteral("mass"), distribution},
          {QStringLiteral("relative_error"), AsJson(relative_error)},
          {QStringLiteral("time_share"), AsJson(time_share)},
          {QStringLiteral("work_share"), AsJson(work_share)}};
}

// Reads one kept tuning. What is wrong is thrown as a clause and caught in FromJson: the tuning is then taken as a
// whole or not at all.
class TuningReader {
 public:
  TuningReader(const TraceSummary& trace, const std::vector<kernels::MethodSpec>& methods, const Workbench& workbench)
      : trace_(trace), methods_(methods), workbench_(workbench) {}

  struct Wrong {
    QString why;
    bool lacks_method = false;
  };

  KeptTuning Read(const QJsonObject& json) {
    KeptTuning tuning;
    tuning.settings = Settings(Object(json, "settings"));
    tuning.chosen = Chosen(Array(json, "heads"));
    const std::set<analysis::HeadId> chosen(tuning.chosen.begin(), tuning.chosen.end());
    std::set<std::pair<analysis::HeadId, int64_t>> of_lengths;
    std::set<analysis::HeadId> done;
    for (const QJsonValue one : Array(json, "found")) {
      TunedSetting found = Found(one.toObject(), tuning.settings);
      Require(chosen.contains(found.head) && of_lengths.emplace(found.head, found.lengths.from_tokens).second &&
                  (!found.is_open_traces || done.insert(found.head).second),
              "found");
      tuning.found.push_back(std::move(found));
    }
    for (const QJsonValue one : Array(json, "failed")) {
      const QJsonObject failed = one.toObject();
      const analysis::HeadId head = Head(failed[QLatin1String("head")]);
      Require(chosen.contains(head) && done.insert(head).second, "failed");
      tuning.failed.push_back({head, Text(failed, "sentence")});
    }
    return tuning;
  }

 private:
  static void Require(bool holds, const char* what) {
    if (!holds)
      throw Wrong{.why = QStringLiteral("its \"%1\" is not of this trace, or damaged").arg(QLatin1String(what))};
  }
  static QJsonObject Object(const QJsonObject& json, const char* name) {
    const QJsonValue value = json[QLatin1String(name)];
    Require(value.isObject(), name);
    return value.toObject();
  }
  static QJsonArray Array(const QJsonObject& json, const char* name) {
    const QJsonValue value = json[QLatin1String(name)];
    Require(value.isArray(), name);
    return value.toArray();
  }
  static bool Flag(const QJsonObject& json, const char* name) {
    const QJsonValue value = json[QLatin1String(name)];
    Require(value.isBool(), name);
    return value.toBool();
  }
  static std::string TextOf(const QJsonValue& value, const char* name) {
    Require(value.isString() && value.toString().size() <= kMostTextLength, name);
    return value.toString().toStdString();
  }
  static std::string Text(const QJsonObject& json, const char* name) { return TextOf(json[QLatin1String(name)], name); }
  static std::vector<std::string> TextsOf(const QJsonObject& json, const char* name) {
    const QJsonArray array = Array(json, name);
    Require(array.size() <= kMostTexts, name);
    std::vector<std::string> texts;
    for (const QJsonValue one : array) texts.push_back(TextOf(one, name));
    return texts;
  }
  static double Finite(const QJsonObject& json, const char* name) {
    const QJsonValue value = json[QLatin1String(name)];
    Require(value.isDouble() && std::isfinite(value.toDouble()), name);
    return value.toDouble();
  }
  // Also what is not known or without bound.
  static double Number(const QJsonObject& json, const char* name) {
    const QJsonValue value = json[QLatin1String(name)];
    if (value.isNull()) return std::numeric_limits<double>::quiet_NaN();
    if (value == QLatin1String("inf")) return std::numeric_limits<double>::infinity();
    if (value == QLatin1String("-inf")) return -std::numeric_limits<double>::infinity();
    return Finite(json, name);
  }
  static int64_t Whole(const QJsonObject& json, const char* name, int64_t least, int64_t most) {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::min();  // what is no whole number
    const QJsonValue value = json[QLatin1String(name)];
    const int64_t whole = value.toInteger(kNone);
    Require(value.isDouble() && whole != kNone && whole >= least && whole <= most, name);
    return whole;
  }
  static size_t OneOf(const QJsonObject& json, const char* name, std::span<const char* const> names) {
    const std::string text = Text(json, name);
    const auto found = std::ranges::find(names, text);
    Require(found != names.end(), name);
    return static_cast<size_t>(found - names.begin());
  }
  // One of the trace's.
  analysis::HeadId Head(const QJsonValue& json) const {
    const QJsonArray pair = json.toArray();
    const analysis::HeadId head{pair[0].toInt(-1), pair[1].toInt(-1)};
    Require(pair.size() == 2 && std::ranges::binary_search(trace_.heads, head), "head");
    return head;
  }

  kernels::ParameterValues Values(const QJsonObject& json, const kernels::MethodSpec& spec) const {
    return ValuesOf(Text(json, "values"), spec);
  }
  static kernels::ParameterValues ValuesOf(const std::string& text, const kernels::MethodSpec& spec) {
    kernels::ParameterValues values(spec);
    if (const std::string error = values.Parse(spec, text); !error.empty())
      throw Wrong{.why = QString::fromStdString(spec.name + " does not take its parameters")};
    // Every parameter: a default may be another one by now.
    Require(values.ToString(spec) == text, "values");
    return values;
  }

  TuneSettings Settings(const QJsonObject& json) const {
    TuneSettings settings;
    const QJsonArray methods = Array(json, "methods");
    Require(!methods.isEmpty() && methods.size() <= std::ssize(methods_), "methods");
    const kernels::MethodSpec* first = nullptr;
    for (const QJsonValue one : methods) {
      const QJsonObject method = one.toObject();
      const std::string name = Text(method, "name");
      const kernels::MethodSpec* const spec = Find(methods_, name);
      if (spec == nullptr || !HasBudget(*spec)) {
        throw Wrong{
            .why = QStringLiteral("its method %1 is not known or cannot be tuned here; if it is one of a file, read "
                                  "that file and open the trace again")
                       .arg(QString::fromStdString(name).left(80)),
            .lacks_method = true};
      }
      if (first == nullptr) first = spec;
      Require(spec->phase == first->phase, "methods");
      settings.methods.push_back({name, Values(method, *spec)});
    }
    settings.target = {Text(json, "target"), Finite(json, "target_value")};
    const std::vector<TuneTargetChoice> targets = workbench_.tune_targets();
    Require(std::ranges::find(targets, settings.target.name, &TuneTargetChoice::name) != targets.end() &&
                settings.target.value > 0,
            "target");
    settings.unit = static_cast<TuneSettings::Unit>(OneOf(json, "unit", kUnits));
    settings.choose = static_cast<TuneSettings::Choice>(OneOf(json, "choose", kChoices));
    settings.checks = TextsOf(json, "checks");
    settings.traces = TextsOf(json, "traces");
    settings.ranges = TextsOf(json, "ranges");
    Require(settings.ranges.empty() || workbench_.WhyNotRanges(settings.ranges).empty(), "ranges");
    settings.check_rows = Text(json, "check_rows");
    Require(settings.check_rows.empty() || workbench_.WhyNotCheckRows(settings.check_rows).empty(), "check_rows");
    settings.from_budgets = Flag(json, "from_budgets");
    const bool is_decode = first->phase == kernels::Phase::kDecode;
    constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();
    settings.decode_rows = static_cast<int32_t>(Whole(
        json, "decode_rows", is_decode ? 1 : 0,
        is_decode ? std::max<int64_t>(std::min<int64_t>(trace_.num_rows, kMostRows), trace_.decode_rows) : kMostRows));
    settings.in_group = Flag(json, "in_group");
    return settings;
  }

  std::vector<analysis::HeadId> Chosen(const QJsonArray& json) const {
    Require(!json.isEmpty() && json.size() <= std::ssize(trace_.heads), "heads");
    std::vector<analysis::HeadId> chosen;
    for (const QJsonValue one : json) {
      chosen.push_back(Head(one));
      Require(chosen.size() == 1 || chosen[chosen.size() - 2] < chosen.back(), "heads");
    }
    return chosen;
  }

  static analysis::MassDistribution Mass(const QJsonObject& json) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    analysis::MassDistribution mass;
    for (const QString& bin : QString::fromStdString(Text(json, "bins")).split(u' ', Qt::SkipEmptyParts)) {
      const QStringList parts = bin.split(u':');
      Require(parts.size() == 2, "bins");
      bool is_place = false, is_count = false;
      const qsizetype place = parts[0].toInt(&is_place);
      const int64_t count = parts[1].toLongLong(&is_count);
      Require(is_place && is_count && place >= 0 && place < std::ssize(mass.bins) && count > 0, "bins");
      mass.bins[static_cast<size_t>(place)] = count;
    }
    mass.num_rows = Whole(json, "rows", 0, kMost);
    mass.worst_row = Whole(json, "worst_row", -1, kMost);
    VisitMass(mass, [&](const char* name, double& number) { number = Finite(json, name); });
    return mass;
  }

  static analysis::SettingQuality Quality(const QJsonObject& json) {
    analysis::SettingQuality quality;
    quality.reached = Flag(json, "reached");
    quality.kept_fraction = Finite(json, "kept_fraction");
    quality.mass = Mass(Object(json, "mass"));
    quality.relative_error = Number(json, "relative_error");
    quality.time_share = Number(json, "time_share");
    quality.work_share = Number(json, "work_share");
    return quality;
  }

  static Device DeviceOf(const QJsonObject& json) {
    try {
      return ParseDevice(Text(json, "device"));
    } catch (const UsageError&) {
      throw Wrong{.why = QStringLiteral("its \"device\" is none")};
    }
  }

  TunedSetting Found(const QJsonObject& json, const TuneSettings& settings) const {
    TunedSetting found;
    static_cast<analysis::SettingQuality&>(found) = Quality(Object(json, "quality"));
    found.head = Head(json[QLatin1String("head")]);
    constexpr int64_t kNoEnd = TunedSetting::Lengths::kNoEnd;
    found.lengths.from_tokens = Whole(json, "from_tokens", 0, kNoEnd - 1);
    if (json.contains(QLatin1String("below_tokens")))
      found.lengths.below_tokens = Whole(json, "below_tokens", found.lengths.from_tokens + 1, kNoEnd);
    found.is_open_traces = Flag(json, "is_open_traces");
    Require(!settings.ranges.empty() || (found.is_open_traces && found.lengths == TunedSetting::Lengths()), "found");
    found.method = static_cast<size_t>(Whole(json, "method", 0, std::ssize(settings.methods) - 1));
    const kernels::MethodSpec& spec = *Find(methods_, settings.methods[found.method].name);
    found.values = Values(json, spec);
    found.device = {DeviceOf(json), Text(json, "device_name")};
    found.outside_mass = Finite(json, "outside_mass");
    if (json.contains(QLatin1String("checked"))) found.checked = Quality(Object(json, "checked"));
    const QJsonArray points = Array(json, "trade_off");
    Require(points.size() <= kMostPoints, "trade_off");
    for (const QJsonValue one : points) {
      const QJsonObject point = one.toObject();
      found.trade_off.push_back({Values(point, spec), Finite(point, "mass_mean")});
    }
    found.passed_over = TextsOf(json, "passed_over");
    found.note = Text(json, "note");
    return found;
  }

  const TraceSummary& trace_;
  const std::vector<kernels::MethodSpec>& methods_;
  const Workbench& workbench_;
};

}  // namespace

size_t KeptTuning::NumTuned() const {
  return static_cast<size_t>(std::ranges::count(found, true, &TunedSetting::is_open_traces));
}

std::optional<KeptTuning> KeptTuning::FromJson(const QJsonObject& json, const TraceSummary& trace,
                                               const std::vector<kernels::MethodSpec>& methods,
                                               const Workbench& workbench, QString* why, bool* lacks_method) {
  try {
    return TuningReader(trace, methods, workbench).Read(json);
  } catch (const TuningReader::Wrong& wrong) {
    *why = wrong.why;
    if (lacks_method != nullptr) *lacks_method = wrong.lacks_method;
    return std::nullopt;
  }
}

QString TuningTitle(const TuneSettings& settings, const std::vector<kernels::MethodSpec>& methods) {
  if (settings.methods.size() > 1) return QObject::tr("The best of %1 methods").arg(settings.methods.size());
  const std::string& name = settings.methods.front().name;
  const kernels::MethodSpec* const spec = Find(methods, name);
  return QString::fromStdString(spec == nullptr ? name : spec->title);
}

QJsonObject FoundAsJson(const TunedSetting& found, const TuneSettings& settings,
                        const std::vector<kernels::MethodSpec>& methods) {
  const kernels::MethodSpec* const spec = Find(methods, settings.methods[found.method].name);
  QJsonArray points;
  for (const TunedSetting::Point& point : found.trade_off) {
    points.append(QJsonObject{{QStringLiteral("values"), ValuesText(point.values, spec)},
                              {QStringLiteral("mass_mean"), AsJson(point.mass_mean)}});
  }
  QJsonObject json{{QStringLiteral("quality"), AsJson(static_cast<const analysis::SettingQuality&>(found))},
                   {QStringLiteral("head"), AsJson(found.head)},
                   {QStringLiteral("from_tokens"), qint64{found.lengths.from_tokens}},
                   {QStringLiteral("is_open_traces"), found.is_open_traces},
                   {QStringLiteral("method"), static_cast<qint64>(found.method)},
                   {QStringLiteral("values"), ValuesText(found.values, spec)},
                   {QStringLiteral("device"), QString::fromStdString(DeviceText(found.device.device))},
                   {QStringLiteral("device_name"), QString::fromStdString(found.device.name)},
                   {QStringLiteral("outside_mass"), AsJson(found.outside_mass)},
                   {QStringLiteral("trade_off"), points},
                   {QStringLiteral("passed_over"), Texts(found.passed_over)},
                   {QStringLiteral("note"), QString::fromStdString(found.note)}};
  if (found.lengths.below_tokens != TunedSetting::Lengths::kNoEnd)
    json[QStringLiteral("below_tokens")] = qint64{found.lengths.below_tokens};
  if (found.checked) json[QStringLiteral("checked")] = AsJson(*found.checked);
  return json;
}

QJsonObject TuningAsJson(const TuneSettings& settings, const std::vector<kernels::MethodSpec>& methods,
                         const std::vector<analysis::HeadId>& chosen, const QJsonArray& found,
                         const std::vector<FailedHead>& failed) {
  const auto& [tuned, target, unit, checks, traces, ranges, check_rows, choose, from_budgets, decode_rows, in_group] =
      settings;
  QJsonArray of_methods, heads, failures;
  for (const TuneSettings::Method& method : tuned) {
    of_methods.append(QJsonObject{{QStringLiteral("name"), QString::fromStdString(method.name)},
                                  {QStringLiteral("values"), ValuesText(method.values, Find(methods, method.name))}});
  }
  for (const analysis::HeadId& head : chosen) heads.append(AsJson(head));
  for (const FailedHead& one : failed) {
    failures.append(QJsonObject{{QStringLiteral("head"), AsJson(one.head)},
                                {QStringLiteral("sentence"), QString::fromStdString(one.sentence)}});
  }
  const QJsonObject asked{{QStringLiteral("methods"), of_methods},
                          {QStringLiteral("target"), QString::fromStdString(target.name)},
                          {QStringLiteral("target_value"), AsJson(target.value)},
                          {QStringLiteral("unit"), QLatin1String(kUnits.at(static_cast<size_t>(unit)))},
                          {QStringLiteral("choose"), QLatin1String(kChoices.at(static_cast<size_t>(choose)))},
                          {QStringLiteral("checks"), Texts(checks)},
                          {QStringLiteral("traces"), Texts(traces)},
                          {QStringLiteral("ranges"), Texts(ranges)},
                          {QStringLiteral("check_rows"), QString::fromStdString(check_rows)},
                          {QStringLiteral("from_budgets"), from_budgets},
                          {QStringLiteral("decode_rows"), decode_rows},
                          {QStringLiteral("in_group"), in_group}};
  return {{QStringLiteral("settings"), asked},
          {QStringLiteral("heads"), heads},
          {QStringLiteral("found"), found},
          {QStringLiteral("failed"), failures}};
}

}  // namespace headscope::ui
