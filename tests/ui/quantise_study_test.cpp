// SPDX-License-Identifier: Apache-2.0
// The study of few bits: begun by a person, ended by another head and by a measured run.
#include "quantise_study.h"

#include <gtest/gtest.h>

#include <QCoreApplication>

#include "command_line.h"
#include "fake_workbench.h"

namespace headscope::ui {
namespace {

class QuantiseStudyTest : public ::testing::Test {
 protected:
  QuantiseStudyTest() {
    heads_.SetTrace(workbench_.Summary());
    heads_.Select(heads_.trace().heads.front());
    QObject::connect(&study_, &QuantiseStudy::Began, [this] { ++num_began_; });
    QObject::connect(&study_, &QuantiseStudy::Ended, [this] { ++num_ended_; });
  }

  testing::FakeWorkbench workbench_{256};
  HeadStore heads_;
  QuantiseStudy study_{&workbench_, &heads_};
  int num_began_ = 0, num_ended_ = 0;
};

TEST_F(QuantiseStudyTest, BeginsWhenAPersonSaysSo) {
  EXPECT_EQ(workbench_.num_quantisations, 0);
  study_.SetSettings({{"int8"}, {}, true, false});
  study_.Start();
  EXPECT_TRUE(study_.working());
  workbench_.DeliverReplies();
  EXPECT_FALSE(study_.working());
  ASSERT_EQ(study_.outputs().size(), 1U);
  EXPECT_EQ(workbench_.last_quantisation.formats, std::vector<std::string>{"int8"});
  EXPECT_EQ(num_began_, 1);
  EXPECT_EQ(num_ended_, 1);
}

TEST_F(QuantiseStudyTest, AnotherHeadEndsItAndForgetsWhatWasFound) {
  study_.Start();
  heads_.Select(heads_.trace().heads.back());
  EXPECT_FALSE(study_.working());
  EXPECT_EQ(workbench_.num_cancelled_quantisations, 1);
  workbench_.DeliverReplies();
  EXPECT_TRUE(study_.outputs().empty()) << "of the head before";
  study_.Start();
  workbench_.DeliverReplies();
  EXPECT_FALSE(study_.outputs().empty());
  heads_.Select(heads_.trace().heads.front());
  EXPECT_TRUE(study_.outputs().empty());
}

TEST_F(QuantiseStudyTest, AMeasuredRunHasTheMachineToItself) {
  study_.Start();
  study_.SetMeasuring(true);
  EXPECT_FALSE(study_.working());
  EXPECT_FALSE(study_.WhyNot().isEmpty());
  study_.Start();
  EXPECT_FALSE(study_.working());
  study_.SetMeasuring(false);
  EXPECT_TRUE(study_.WhyNot().isEmpty());
}

TEST(QuantiseCommandTest, NamesWhatIsChosen) {
  const QString trace = QStringLiteral("a.h5");
  EXPECT_EQ(QuantiseCommand(trace, {1, 2}, {}).toStdString(), "headscope quantise a.h5 --heads 1:2");
  EXPECT_EQ(QuantiseCommand(trace, {1, 2}, {{"int4"}, {"head"}, true, false}).toStdString(),
            "headscope quantise a.h5 --heads 1:2 --formats int4 --scales head --hadamard off");
}

}  // namespace
}  // namespace headscope::ui
