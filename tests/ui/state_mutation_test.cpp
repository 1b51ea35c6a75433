// SPDX-License-Identifier: Apache-2.0
// Damaged files of what the window remembers, the same ones on every run: what is missing or wrong keeps its default.
#include <gtest/gtest.h>

#include <QFile>
#include <QString>
#include <chrono>
#include <string>

#include "state_fuzz.h"
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
  std::string text = R"({"schema":"headscope-trace-state-1","runs":[)";
  for (int i = 0; i < 200000; ++i)
    text += (i > 0 ? "," : "") + std::string(R"({"id":"an-entry-of-many-)") + std::to_string(i) +
            R"(","contents":"c","run":{}})";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(Fuzzed(text + "]}"), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20)) << "minutes, where each looks at all";
}

}  // namespace
}  // namespace headscope::ui
