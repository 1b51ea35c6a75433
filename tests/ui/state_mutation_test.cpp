// SPDX-License-Identifier: Apache-2.0
// Damaged files of what the window remembers, the same ones on every run: what is missing or wrong keeps its default.
#include <gtest/gtest.h>

#include <QFile>
#include <QString>
#include <string>

#include "state_fuzz.h"
#include "support/attempts.h"
#include "support/mutate.h"

namespace headscope::ui {
namespace {

int Fuzzed(const std::string& text) {
  return FuzzState(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

TEST(State, DamagedFilesDoNoHarm) {
  for (const char* name : {"session", "beside"}) {
    QFile file(QStringLiteral(HEADSCOPE_SOURCE_DIR "/tests/corpus/ui_state/") + QLatin1String(name));
    ASSERT_TRUE(file.open(QIODevice::ReadOnly)) << name;
    const std::string seed = file.readAll().toStdString();
    EXPECT_EQ(Fuzzed(seed), 0) << name;
    Random random(19);
    int refused = 0;
    for (int i = 0; i < 1500; ++i) refused += Fuzzed(Mutate(seed, &random));
    EXPECT_GT(refused, 300) << name;
  }
}

// A file beside a trace that came from elsewhere held up the window, in proportion to the square of its length.
TEST(State, ManyEntriesTakeTimeInProportion) {
  const auto read = [](int entries) {
    std::string text = R"({"schema":"headscope-trace-state-1","runs":[)";
    for (int i = 0; i < entries; ++i)
      text += (i > 0 ? "," : "") + std::string(R"({"id":"an-entry-of-many-)") + std::to_string(i) +
              R"(","contents":"c","run":{}})";
    text += "]}";
    return [text = std::move(text)] { EXPECT_EQ(Fuzzed(text), 0); };
  };
  EXPECT_TRUE(TakesLess(read(80000), 10, read(20000))) << "16 times, where each looks at all";
}

}  // namespace
}  // namespace headscope::ui
