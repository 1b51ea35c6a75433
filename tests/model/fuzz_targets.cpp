// SPDX-License-Identifier: Apache-2.0
#include "fuzz_targets.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "model/checkpoint.h"
#include "model/model_config.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"
#include "tokenizer/ranked_tokens.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {
namespace {

template <typename Parse>
int Try(const Parse& parse) {
  try {
    parse();
  } catch (const BadInputError&) {
    return 1;
  }
  return 0;
}

std::string_view View(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// One shard with two tensors.
struct ShardFolder {
  ShardFolder() {
    std::filesystem::create_directories(path);
    std::string header =
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const uint64_t length = header.size();
    std::string shard(sizeof length, '\0');
    std::memcpy(shard.data(), &length, sizeof length);
    std::ofstream(path / "one.safetensors", std::ios::binary) << shard << header << std::string(8, '\1');
  }
  ~ShardFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("headscope-index-fuzz-" + std::to_string(getpid()));
};

void ExpectOnlyTokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    if (tokenizer.Has(id)) continue;
    std::fputs("an id is not in the vocabulary\n", stderr);
    std::abort();
  }
}

}  // namespace

int FuzzSafetensors(const uint8_t* data, size_t size) {
  int64_t data_size = 0;
  if (size < sizeof data_size) return 1;
  std::memcpy(&data_size, data, sizeof data_size);
  return Try([&] { ParseSafetensorsHeader(View(data, size).substr(sizeof data_size), data_size, "fuzz"); });
}

int FuzzIndex(const uint8_t* data, size_t size) {
  static const ShardFolder folder;
  std::ofstream(folder.path / "model.safetensors.index.json", std::ios::binary | std::ios::trunc) << View(data, size);
  return Try([&] {
    Checkpoint checkpoint(folder.path.string());
    for (const char* name : {"a", "b"}) {
      const TensorEntry* const entry = checkpoint.Find(name);
      float value = 0;
      if (entry != nullptr) checkpoint.Read(*entry, &value);
      if (entry != nullptr && value != 0) continue;
      std::fputs("a tensor is in no file\n", stderr);
      std::abort();
    }
    checkpoint.RefuseUnread();
  });
}

int FuzzConfig(const uint8_t* data, size_t size) {
  return Try([&] { ParseModelConfig(View(data, size), "fuzz"); });
}

int FuzzTokenizer(const uint8_t* data, size_t size) {
  return Try([&] { ParseTokenizerSpec(View(data, size), "fuzz"); });
}

int FuzzWords(const uint8_t* data, size_t size) {
  const std::string_view whole = View(data, size);
  const size_t end = whole.find('\0');
  if (end == std::string_view::npos) return 1;
  return Try([&] {
    const Tokenizer tokenizer = Tokenizer::Parse(whole.substr(0, end), "fuzz");
    ExpectOnlyTokens(tokenizer, tokenizer.Encode(whole.substr(end + 1), true));
  });
}

int FuzzPieces(const uint8_t* data, size_t size) {
  return Try([&] { ParseSentencePiece(View(data, size), "fuzz", {.chatglm = size % 2 == 1}); });
}

int FuzzRanks(const uint8_t* data, size_t size) {
  const RankedUse use{.model_type = size % 2 == 1   ? "qwen"
                                    : size % 8 == 2 ? "kimi_k2"
                                                    : "llama",
                      .after_llama_3 = size % 4 == 0,
                      .names = {}};
  return Try([&] { ParseRankedTokens(View(data, size), "fuzz", use); });
}

int FuzzEnds(const uint8_t* data, size_t size) {
  return Try([&] {
    ParseSentencePieceEnds(View(data, size), "fuzz");
    ParseNamesBeside(View(data, size), "fuzz");
  });
}

int FuzzPrompt(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = Tokenizer::Load(HEADSCOPE_SOURCE_DIR "/data/reference_model/tokenizer.json");
  const std::string_view text = View(data, size);
  if (tokenizer.Decode(tokenizer.Encode(text, false), /*keep_special_tokens=*/true) == text) return 0;
  std::fputs("the tokens of a text do not spell it\n", stderr);
  std::abort();
}

}  // namespace headscope::model

#ifdef HEADSCOPE_FUZZ
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::model::HEADSCOPE_FUZZ(data, size);
  return 0;
}
#endif
