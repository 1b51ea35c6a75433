// SPDX-License-Identifier: Apache-2.0
#include "capture_estimate.h"

#include <QRegularExpression>
#include <QStringList>
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/errors.h"
#include "base/row_selection.h"

namespace headscope::ui {
namespace {

// The chosen numbers, or nothing and false.
bool ParseChosen(const QString& list, int64_t limit, std::set<int64_t>* chosen) {
  static const QRegularExpression item(QStringLiteral("^\\s*(\\d{1,6})(?:-(\\d{1,6}))?\\s*$"));
  chosen->clear();
  if (list.trimmed().isEmpty()) {
    for (int64_t i = 0; i < limit; ++i) chosen->insert(i);
    return true;
  }
  for (const QString& part : list.split(u',')) {
    const auto match = item.match(part);
    if (!match.hasMatch()) return false;
    const int64_t first = match.captured(1).toLongLong();
    const int64_t last = match.captured(2).isEmpty() ? first : match.captured(2).toLongLong();
    if (last < first) return false;
    for (int64_t i = first; i <= std::min(last, limit - 1); ++i) chosen->insert(i);
  }
  return true;
}

}  // namespace

int64_t CountChosen(const QString& list, int64_t limit) {
  std::set<int64_t> chosen;
  return ParseChosen(list, limit, &chosen) ? static_cast<int64_t>(chosen.size()) : -1;
}

std::optional<std::vector<int32_t>> ParseTokenIds(const QString& list) {
  static const QRegularExpression between(QStringLiteral("[,\\s]+"));
  std::vector<int32_t> ids;
  for (const QString& part : list.split(between, Qt::SkipEmptyParts)) {
    bool is_number = false;
    ids.push_back(part.toInt(&is_number));
    if (!is_number || ids.back() < 0) return std::nullopt;
  }
  if (ids.empty()) return std::nullopt;
  return ids;
}

QString RowsProblem(const QString& rows, std::optional<int64_t> prompt_tokens) {
  try {
    RowSelection selection(rows.toStdString());
    if (prompt_tokens) selection.Draw(*prompt_tokens);
  } catch (const UsageError& refused) {
    return QString::fromStdString(refused.fault().problem);
  }
  return {};
}

int64_t CountRows(const QString& rows, int64_t prompt_tokens, int64_t decode_tokens) {
  if (!RowsProblem(rows, {}).isEmpty()) return -1;
  return RowSelection(rows.toStdString()).Count(prompt_tokens) + decode_tokens;
}

int64_t EstimateTraceBytes(const ModelDescription& model, const CaptureSettings& settings, int64_t prompt_tokens) {
  const int64_t rows = CountRows(QString::fromStdString(settings.rows), prompt_tokens, settings.decode_tokens);
  std::set<int64_t> layers, heads;
  if (rows < 0 || !ParseChosen(QString::fromStdString(settings.layers), model.num_layers, &layers) ||
      !ParseChosen(QString::fromStdString(settings.heads), model.num_qo_heads, &heads)) {
    return -1;
  }
  std::set<int64_t> kv_heads;
  const int64_t group_size = std::max(1, model.num_qo_heads / std::max(1, model.num_kv_heads));
  if (!settings.kv_heads.empty()) {
    std::set<int64_t> chosen;
    if (!ParseChosen(QString::fromStdString(settings.kv_heads), model.num_kv_heads, &chosen)) return -1;
    heads.clear();
    for (const int64_t kv_head : chosen) {
      for (int64_t i = 0; i < group_size; ++i) heads.insert(kv_head * group_size + i);
    }
  }
  for (const int64_t head : heads) kv_heads.insert(head / group_size);
  const int64_t value_bytes = SizeOf(settings.dtype.value_or(model.recorded_type));
  const auto num_heads = static_cast<int64_t>(heads.size()), num_kv = static_cast<int64_t>(kv_heads.size());
  const int64_t tokens = prompt_tokens + settings.decode_tokens;
  int64_t per_layer =
      rows * (num_heads * (model.head_dim * value_bytes + 4) + 8) + 2 * num_kv * tokens * model.head_dim * value_bytes;
  for (const Recordable& more : settings.record) {
    switch (more.size) {
      case Recordable::Size::kQueriesAndKeys:
        per_layer += (rows * num_heads + tokens * num_kv) * model.head_dim * value_bytes;
        break;
      case Recordable::Size::kHeadsAndTokens:
        per_layer += 4 * num_heads * tokens;
        break;
      case Recordable::Size::kTokens:
        per_layer += 4 * tokens;
        break;
      case Recordable::Size::kKeysAndValues:
        per_layer += 2 * tokens * num_kv * model.head_dim * value_bytes;
        break;
      case Recordable::Size::kHiddenStates:
        per_layer += tokens * model.hidden_size * value_bytes;
        break;
      case Recordable::Size::kOutputs:
        per_layer += rows * num_heads * model.head_dim * value_bytes;
        break;
    }
  }
  return static_cast<int64_t>(layers.size()) * per_layer;
}

QString FormatSeconds(double seconds) {
  if (seconds < 1) return QStringLiteral("1 s");
  if (seconds < 100) return QStringLiteral("%1 s").arg(seconds, 0, 'f', 0);
  if (seconds < 6000) return QStringLiteral("%1 min").arg(seconds / 60, 0, 'f', 0);
  return QStringLiteral("%1 h").arg(seconds / 3600, 0, 'f', 1);
}

}  // namespace headscope::ui
