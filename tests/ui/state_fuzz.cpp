// SPDX-License-Identifier: Apache-2.0
#include "state_fuzz.h"

#include <QJsonDocument>
#include <QTemporaryDir>
#include <set>

#include "session.h"
#include "support/require.h"
#include "trace_keeper.h"
#include "trace_notes.h"

namespace headscope::ui {
namespace {

using testing::Require;

}  // namespace

int FuzzState(const uint8_t* data, size_t size) {
  static const QTemporaryDir folder;
  static const QString trace = folder.filePath(QStringLiteral("t.h5"));
  QFile file(TraceKeeper::FileBeside(trace));
  Require(file.open(QIODevice::WriteOnly | QIODevice::Truncate), "no folder to write to");
  file.write(reinterpret_cast<const char*>(data), static_cast<qint64>(size));
  file.close();

  TraceSummary summary;
  summary.heads = {{0, 1}, {2, 3}};
  summary.num_rows = 10;
  summary.num_tokens = 20;
  TraceKeeper keeper(nullptr, folder.path());
  const TraceKeeper::Kept kept = keeper.Open(trace, QStringLiteral("c"));
  std::set<QString> ids;
  int taken = static_cast<int>(kept.runs.size());
  for (const auto& [id, json] : kept.notes) {
    Require(ids.insert(id).second, "a note twice");
    const std::optional<TraceNote> note = TraceNote::FromJson(id, json, summary);
    if (!note) continue;
    ++taken;
    Require(note->row_begin >= 0 && note->row_end <= 10 && note->column_begin >= 0 && note->column_end <= 20,
            "a note outside its trace");
    Require(TraceNote::FromJson(id, note->ToJson(), summary) == note, "another note than was written");
  }
  const QJsonObject object =
      QJsonDocument::fromJson(QByteArray(reinterpret_cast<const char*>(data), static_cast<qsizetype>(size))).object();
  const QJsonObject once = Session::FromJson(object).ToJson();
  Require(Session::FromJson(once).ToJson() == once, "another session than was written");
  return taken > 0 || once != Session().ToJson() ? 0 : 1;
}

}  // namespace headscope::ui

#ifdef HEADSCOPE_FUZZ_STATE
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::ui::FuzzState(data, size);
  return 0;
}
#endif
