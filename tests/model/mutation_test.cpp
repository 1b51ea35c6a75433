// SPDX-License-Identifier: Apache-2.0
// Thousands of damaged files, the same ones on every run: each is accepted or refused with a sentence, nothing else
// happens.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/random.h"
#include "checkpoint_files.h"
#include "fuzz_targets.h"
#include "support/mutate.h"

namespace headscope::model {
namespace {

// Runs `target` on mutations of `seed`; both outcomes must occur, or the mutations test nothing.
void Hammer(int (*target)(const uint8_t*, size_t), const std::string& seed, int trials) {
  Random random(42);
  ASSERT_EQ(target(reinterpret_cast<const uint8_t*>(seed.data()), seed.size()), 0)
      << "the seed itself must be accepted";
  int refused = 0;
  for (int i = 0; i < trials; ++i) {
    const std::string damaged = Mutate(seed, &random);
    ASSERT_NO_THROW(refused += target(reinterpret_cast<const uint8_t*>(damaged.data()), damaged.size()))
        << damaged.substr(0, 500);
  }
  EXPECT_GT(refused, trials / 2);
}

TEST(Mutations, SafetensorsHeader) {
  const std::string file = ReadWholeFile(ReferenceModel() + "/model-00003-of-00003.safetensors");
  uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), sizeof header_size);
  const uint64_t data_size = file.size() - 8 - header_size;
  std::string seed(8, '\0');
  std::memcpy(seed.data(), &data_size, sizeof data_size);
  Hammer(&FuzzSafetensors, seed + file.substr(8, header_size), 5000);
}

TEST(Mutations, Config) {
  Hammer(&FuzzConfig, ReadWholeFile(ReferenceModel() + "/config.json"), 8000);
}

TEST(Mutations, Tokenizer) {
  // A whole vocabulary would make each trial slow: the bytes and two merges are enough to reach every line of the
  // reader.
  nlohmann::json spec = nlohmann::json::parse(ReadWholeFile(ReferenceModel() + "/tokenizer.json"));
  auto& model = spec["model"];
  const nlohmann::json all = model["vocab"];
  nlohmann::json few = nlohmann::json::object();
  for (const auto& [text, id] : all.items()) {
    if (id.get<int>() < 262) few[text] = id;
  }
  model["vocab"] = few;
  model["merges"] = nlohmann::json::array({nlohmann::json::array({"\u0120", "t"}), nlohmann::json::array({"h", "e"})});
  Hammer(&FuzzTokenizer, spec.dump(), 3000);
}

struct Seeds {
  const char* fuzzer;
  int (*target)(const uint8_t*, size_t);
};

class SeedMutations : public ::testing::TestWithParam<Seeds> {};

// tests/corpus holds the files that the fuzzers start from.
TEST_P(SeedMutations, SeedsAreReadAndTheirMutationsDoNoHarm) {
  int accepted = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(HEADSCOPE_SOURCE_DIR "/tests/corpus/") + GetParam().fuzzer)) {
    SCOPED_TRACE(entry.path().string());
    Random random(11);
    const std::string seed = ReadWholeFile(entry.path().string());
    const auto run = [&](const std::string& text) {
      return GetParam().target(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    };
    accepted += run(seed) == 0 ? 1 : 0;
    for (int i = 0; i < 400; ++i) {
      const std::string damaged = Mutate(seed, &random);
      ASSERT_NO_THROW(run(damaged)) << damaged.substr(0, 500);
    }
  }
  EXPECT_GT(accepted, 0);
}
INSTANTIATE_TEST_SUITE_P(Fuzzers, SeedMutations,
                         ::testing::Values(Seeds{"model_config", &FuzzConfig}, Seeds{"model_tokenizer", &FuzzTokenizer},
                                           Seeds{"model_words", &FuzzWords}, Seeds{"model_pieces", &FuzzPieces},
                                           Seeds{"model_ranks", &FuzzRanks}, Seeds{"model_ends", &FuzzEnds},
                                           Seeds{"model_safetensors", &FuzzSafetensors},
                                           Seeds{"model_index", &FuzzIndex}, Seeds{"model_prompt", &FuzzPrompt}),
                         [](const auto& seeds) { return std::string(seeds.param.fuzzer); });

TEST(Mutations, EveryPromptIsSpelledByItsTokens) {
  Random random(7);
  const std::string prose =
      ReadWholeFile(HEADSCOPE_SOURCE_DIR "/data/prompts/prose.txt").substr(0, 400) + "<s></s>\u00e9\u4f60";
  for (int i = 0; i < 2000; ++i) {
    std::string text = Mutate(prose, &random);
    if (i % 4 == 0) {  // bytes that are no text at all
      for (char& byte : text) byte = static_cast<char>(random.Next());
    }
    FuzzPrompt(reinterpret_cast<const uint8_t*>(text.data()), text.size());  // aborts where they differ
  }
}

}  // namespace
}  // namespace headscope::model
