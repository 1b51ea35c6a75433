// SPDX-License-Identifier: Apache-2.0
// One seed for a run of a test program: fresh each time and printed, or the one in HEADSCOPE_TEST_SEED, which repeats a
// run. Tests draw theirs from it by name, so that a filter does not change them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>

namespace headscope::kernels::testing {

inline uint32_t RunSeed() {
  static const uint32_t seed = [] {
    const char* const given = std::getenv("HEADSCOPE_TEST_SEED");
    const uint32_t drawn =
        given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
    std::printf("seed %u: HEADSCOPE_TEST_SEED=%u repeats this run\n", drawn, drawn);
    return drawn;
  }();
  return seed;
}

// Stands in the test's report as well.
inline uint32_t SeedFor(const std::string& name) {
  const auto seed = static_cast<uint32_t>(std::hash<std::string>()(std::to_string(RunSeed()) + name));
  ::testing::Test::RecordProperty("run_seed", std::to_string(RunSeed()));
  return seed;
}

// A seed for the test that runs, another one at every call and in every repetition of --gtest_repeat.
inline uint32_t FreshSeed() {
  static std::map<std::string, int> calls;
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = test == nullptr ? "" : std::string(test->test_suite_name()) + "." + test->name();
  return SeedFor(name + " " + std::to_string(calls[name]++));
}

}  // namespace headscope::kernels::testing
