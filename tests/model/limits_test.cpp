// SPDX-License-Identifier: Apache-2.0
// What readers of model folders may cost, whatever a file holds (docs/design.md, "Files of others"): memory of at most
// 32 times its size and 16 MB, and time in proportion to it.
//
// Each file here once took minutes or gigabytes, or is of the same make. A reader runs in a process of its own, whose
// address space may grow by that much and no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "checkpoint_files.h"
#include "model/checkpoint.h"
#include "model/model_config.h"
#include "model/tokenizer.h"
#include "tokenizer/seeded_hash.h"
#include "tokenizer/tokenizer_spec.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADSCOPE_OWN_MEMORY 0  // a sanitizer's own memory hides the program's
#else
#define HEADSCOPE_OWN_MEMORY 1
#endif

namespace headscope::model {
namespace {

constexpr uint64_t kMultiple = 32;
constexpr uint64_t kFixed = 16 << 20;

std::string Repeated(const std::string& part, size_t bytes) {
  std::string text;
  text.reserve(bytes + part.size());
  while (text.size() < bytes) text += part;
  return text;
}

// "KEY0":VALUE,"KEY1":VALUE,...
std::string Members(const std::string& key, const std::function<std::string(size_t)>& value, size_t bytes) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) {
    if (i > 0) text += ',';
    text += "\"" + key + std::to_string(i) + "\":" + value(i);
  }
  return text;
}

std::string InConfig(const std::string& value) {
  return R"({"model_type":"llama","a":)" + value + "}";
}

// The shipped tokenizer's text with one of its parts replaced.
std::string InTokenizer(const char* pointer, const std::string& value) {
  static const nlohmann::json shipped = nlohmann::json::parse(ReadWholeFile(ReferenceModel() + "/tokenizer.json"));
  nlohmann::json changed = shipped;
  changed[nlohmann::json::json_pointer(pointer)] = "HERE";
  std::string text = changed.dump();
  return text.replace(text.find("\"HERE\""), 6, value);
}

std::string AddedToken(size_t id, const std::string& content) {
  return R"({"id":)" + std::to_string(id) + R"(,"content":")" + content + R"(","special":true,"normalized":false})";
}

// A field of a tokenizer.model: bytes behind their length.
std::string Bytes(int field, const std::string& bytes) {
  std::string text(1, static_cast<char>(field << 3 | 2));
  for (size_t left = bytes.size(); left > 127; left >>= 7) text += static_cast<char>((left & 127) | 128);
  size_t last = bytes.size();
  while (last > 127) last >>= 7;
  return text + static_cast<char>(last) + bytes;
}

std::string PieceField(const std::string& text) {  // a normal one
  return Bytes(1, Bytes(1, text));
}

std::string PieceField(const std::string& text, char type) {
  return Bytes(1, Bytes(1, text) + '\x18' + type);
}

// The tokens of single bytes, and that the model is BPE with them.
std::string BytePieces() {
  std::string pieces;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const std::string name{kDigits[static_cast<size_t>(byte / 16)], kDigits[static_cast<size_t>(byte % 16)]};
    pieces += PieceField("<0x" + name + ">", 6);
  }
  return pieces + Bytes(2, std::string("\x18\x02\x98\x02\x01", 5)) + Bytes(3, std::string("\x20\x00", 2));
}

// A line of a list of tokens by rank.
std::string RankLine(const std::string& bytes, size_t rank) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string line;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = at; i < at + 3; ++i) group = group << 8 | (i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0U);
    for (size_t i = 0; i < 4; ++i) line += at + i > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * i) & 63];
  }
  return line + " " + std::to_string(rank) + "\n";
}

std::string ByteRanks() {
  std::string lines;
  for (size_t byte = 0; byte < 256; ++byte) lines += RankLine({static_cast<char>(byte)}, byte);
  return lines;
}

struct Hostile {
  const char* name;
  const char* file;  // in a model folder
  std::function<std::string(size_t bytes)> make;
};

std::string Header(const std::string& json) {
  return Safetensors(json, "");
}

const Hostile kFiles[] = {
    // The parser's callback looked through the whole parent after every object: minutes for 1.5 MB.
    {"config_objects", "config.json", [](size_t n) { return InConfig("[" + Repeated("{},", n) + "1]"); }},
    {"config_arrays", "config.json", [](size_t n) { return InConfig("[" + Repeated("[],", n) + "1]"); }},
    {"config_numbers", "config.json", [](size_t n) { return InConfig("[" + Repeated("1,", n) + "1]"); }},
    {"config_text", "config.json", [](size_t n) { return InConfig("\"" + Repeated("\\u0041b", n) + "\""); }},
    {"config_keys", "config.json",
     [](size_t n) {
       return InConfig("{" +
                       Members(
                           "", [](size_t) { return "1"; }, n) +
                       "}");
     }},
    {"config_digits", "config.json", [](size_t n) { return InConfig(Repeated("123456789", n)); }},
    {"index_entries", "model.safetensors.index.json",
     [](size_t n) {
       return R"({"weight_map":{)" +
              Members(
                  "", [](size_t) { return "\"a.safetensors\""; }, n) +
              "}}";
     }},
    {"index_numbers", "model.safetensors.index.json",
     [](size_t n) { return R"({"weight_map":{},"a":[)" + Repeated("1,", n) + "1]}"; }},
    {"header_tensors", "model.safetensors",
     [](size_t n) {
       const auto tensor = [](size_t) { return std::string(R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})"); };
       return Header("{" + Members("", tensor, n) + "}");
     }},
    {"header_metadata", "model.safetensors",
     [](size_t n) {
       return Header(R"({"__metadata__":{)" +
                     Members(
                         "", [](size_t) { return "\"\""; }, n) +
                     "}}");
     }},
    // 1 MB once asked for 4 GB: a name of many ids, many times.
    {"template", "tokenizer.json",
     [](size_t n) {
       return InTokenizer("/post_processor",
                          R"({"type":"TemplateProcessing","single":[)" +
                              Repeated(R"({"SpecialToken":{"id":"x","type_id":0}},)", n / 2) +
                              R"({"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"x":{"id":"x","ids":[)" +
                              Repeated("0,", n / 2) + R"(0],"tokens":[]}}})");
     }},
    // A name looked for in a list of names, many times.
    {"template_names", "tokenizer.json",
     [](size_t n) {
       return InTokenizer("/post_processor", R"({"type":"TemplateProcessing","single":[)" +
                                                 Repeated(R"({"SpecialToken":{"id":"0","type_id":0}},)", n / 2) +
                                                 R"({"Sequence":{"id":"A"}}],"special_tokens":{)" +
                                                 Members(
                                                     "", [](size_t) { return R"({"ids":[]})"; }, n / 2) +
                                                 "}}");
     }},
    {"added_alike", "tokenizer.json",
     [](size_t n) {
       std::string list = AddedToken(4096, "the cat");
       for (size_t i = 1; list.size() < n; ++i) list += "," + AddedToken(4096 + i, "the cat " + std::to_string(i));
       return InTokenizer("/added_tokens", "[" + list + "]");
     }},
    {"added_long", "tokenizer.json",
     [](size_t n) {
       return InTokenizer("/added_tokens", "[" + AddedToken(4096, Repeated("a", n / 2)) + "," +
                                               AddedToken(4097, Repeated("ab", n / 2)) + "]");
     }},
    {"vocabulary", "tokenizer.json",
     [](size_t n) {
       const nlohmann::json own =
           nlohmann::json::parse(ReadWholeFile(ReferenceModel() + "/tokenizer.json"))["model"]["vocab"];
       std::string members = own.dump();
       members.pop_back();
       for (size_t i = 0; members.size() < n; ++i)
         members += ",\"0" + std::to_string(1000000 + i) + "\":" + std::to_string(5000 + i);
       return InTokenizer("/model/vocab", members + "}");
     }},
    {"merges", "tokenizer.json",
     [](size_t n) { return InTokenizer("/model/merges", "[" + Repeated(R"("t h",)", n) + R"("t h"])"); }},
    {"word_pieces", "tokenizer.json",
     [](size_t n) {
       std::string members = "\"[UNK]\":0";
       for (size_t i = 1; members.size() < n; ++i) members += ",\"" + std::to_string(i) + "\":" + std::to_string(i);
       return R"({"decoder":null,"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","vocab":{)" +
              members + "}}}";
     }},
    // Texts that all begin alike, so that every one is looked at where a text goes on like them.
    {"unigram_alike", "tokenizer.json",
     [](size_t n) {
       std::string list = "[\"b\",0]";
       for (size_t i = 0; list.size() < n; ++i) list += ",[\"" + std::string(1 + i % 512, 'a') + "\",-1]";
       return R"({"decoder":null,"pre_tokenizer":{"type":"Metaspace","replacement":"_"},)"
              R"("model":{"type":"Unigram","unk_id":0,"vocab":[)" +
              list + "]}}";
     }},
    // Pieces that can be made of each other in every way.
    {"pieces_alike", "tokenizer.model",
     [](size_t n) {
       std::string file = BytePieces();
       for (size_t i = 1; file.size() < n; ++i)
         for (size_t j = 1; j < 256 && file.size() < n; ++j)
           file += PieceField(std::string(i % 256, 'a') + std::string(j, 'b'), 1);
       return file;
     }},
    // As many different pieces as bytes allow, each made of two others in two ways. 64 MB once took 2.4 GB.
    {"pieces_of_three", "tokenizer.model",
     [](size_t n) {
       std::string file = BytePieces();
       const auto add = [&](const std::string& text) {
         if (file.size() < n) file += PieceField(text);
       };
       for (char a = 33; a < 127; ++a) add({a});
       for (char a = 33; a < 127; ++a)
         for (char b = 33; b < 127; ++b) add({a, b});
       for (int planes = 0; planes < 64 && file.size() < n; ++planes)
         for (char a = 33; a < 127; ++a)
           for (char b = 33; b < 127; ++b)
             for (char c = 33; c < 127; ++c)
               add((planes == 0 ? "" : std::string(1, static_cast<char>(32 + planes))) + a + b + c);
       return file;
     }},
    // Every cut of every piece is looked for: once, each time by a hash over all of it.
    {"pieces_long", "tokenizer.model",
     [](size_t n) {
       std::string file = BytePieces();
       for (size_t i = 0; file.size() < n; ++i) file += PieceField(std::string(500, 'a') + std::to_string(1000000 + i));
       return file;
     }},
    {"pieces_names", "tokenizer.model", [](size_t n) { return BytePieces() + Repeated(PieceField("a", 4), n); }},
    {"pieces_short", "tokenizer.model", [](size_t n) { return BytePieces() + Repeated(PieceField("a", 1), n); }},
    {"pieces_empty", "tokenizer.model", [](size_t n) { return Repeated(std::string("\x0a\x00", 2), n); }},
    // As many tokens as bytes allow, each made of two others in every way.
    {"ranks_of_three", "tokenizer.model",
     [](size_t n) {
       std::string file = ByteRanks();
       size_t rank = 256;
       for (int count = 2; count < 5; ++count)
         for (uint32_t number = 0; number < 1U << 6 * count && file.size() < n; ++number) {
           std::string text;
           for (int i = 0; i < count; ++i) text += static_cast<char>(33 + (number >> 6 * i & 63));
           file += RankLine(text, rank++);
         }
       return file;
     }},
    {"ranks_alike", "tokenizer.model",
     [](size_t n) {
       std::string file = ByteRanks();
       size_t rank = 256;
       for (size_t i = 1; i < 512 && file.size() < n; ++i)
         for (size_t j = 1; i + j <= 512 && file.size() < n; ++j)
           file += RankLine(std::string(i, 'a') + std::string(j, 'b'), rank++);
       return file;
     }},
    {"ranks_long", "tokenizer.model",
     [](size_t n) {
       std::string file = ByteRanks();
       for (size_t i = 0; file.size() < n; ++i)
         file += RankLine(std::string(500, 'a') + std::to_string(1000000 + i), 256 + i);
       return file;
     }},
    {"ranks_twice", "tokenizer.model",
     [](size_t n) {
       std::string file = ByteRanks();
       for (size_t i = 0; file.size() < n; ++i) file += RankLine("ab", 256 + i);
       return file;
     }},
    {"ranks_without_lines", "tokenizer.model",
     [](size_t n) { return ByteRanks() + Repeated("QUJD", n) + " 256" + Repeated("\n", n); }},
    {"names_beside", "tokenizer_config.json",
     [](size_t n) {
       const auto name = [](size_t i) { return R"({"content":"<a)" + std::to_string(i) + R"("})"; };
       std::string names = R"("300":{"content":"<|begin_of_text|>"})";
       for (size_t i = 301; names.size() < n; ++i) names += ",\"" + std::to_string(i) + "\":" + name(i);
       return R"({"added_tokens_decoder":{)" + names + "}}";
     }},
    // A map of characters whose array and texts are as long as the file.
    {"character_map", "tokenizer.json",
     [](size_t n) {
       return InTokenizer("/normalizer",
                          R"({"type":"Precompiled","precompiled_charsmap":"AAAB)" + Repeated("AAAA", n) + R"("})");
     }},
    {"normalizers", "tokenizer.json",
     [](size_t n) {
       return InTokenizer("/normalizer", R"({"type":"Sequence","normalizers":[)" + Repeated(R"({"type":"NFC"},)", n) +
                                             R"({"type":"NFC"}]})");
     }},
};

// Reads the folder's file as headscope does; anything but an exception of these kinds fails the test.
void Read(const std::string& folder, const std::string& file) {
  ModelConfig config;
  config.model_type = "llama";
  try {
    if (file == "config.json")
      ReadModelConfig(folder);
    else if (file == "tokenizer.json" || file == "tokenizer.model")
      Tokenizer::Load(folder + "/" + file, &config);
    else if (file == "tokenizer_config.json")
      Tokenizer::Load(folder + "/tokenizer.model", &config);
    else
      Checkpoint checkpoint(folder);
  } catch (const BadInputError&) {
  }
}

double Seconds(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

class Limits : public ::testing::TestWithParam<Hostile> {};

TEST_P(Limits, TimeIsInProportionToTheFile) {
  const auto best_of_two = [](size_t bytes) {
    const TemporaryFolder folder;
    folder.Write("tokenizer.model", ByteRanks());  // which some stand beside
    folder.Write(GetParam().file, GetParam().make(bytes));
    const auto read = [&] { Read(folder.path(), GetParam().file); };
    return std::min(Seconds(read), Seconds(read));
  };
  constexpr size_t kBytes = 1 << 20;
  // What else the machine does can make one of both look slow; four times the time for twice the file would stay.
  double once = 0, twice = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    once = best_of_two(kBytes);
    twice = best_of_two(2 * kBytes);
    if (twice < 3 * once + 0.1) return;
  }
  ADD_FAILURE() << "1 MB takes " << once << " s and 2 MB " << twice << " s";
}

#if HEADSCOPE_OWN_MEMORY
uint64_t AddressSpace() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST_P(Limits, MemoryIsAtMostTheStatedMultiple) {
  const TemporaryFolder folder;
  const std::string text = GetParam().make(4 << 20);
  folder.Write("tokenizer.model", ByteRanks());
  folder.Write(GetParam().file, text);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const uint64_t most = AddressSpace() + kFixed + kMultiple * text.size();
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(3);
    try {
      Read(folder.path(), GetParam().file);
    } catch (const std::bad_alloc&) {
      _exit(1);
    } catch (...) {
      _exit(2);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: more memory than " << kMultiple << " times the file's size";
}
#endif

INSTANTIATE_TEST_SUITE_P(Files, Limits, ::testing::ValuesIn(kFiles),
                         [](const auto& file) { return std::string(file.param.name); });

// Seven added tokens with ids far apart once asked for 760 MB, a table of every id below them.
TEST(Limits, IdsFarApartAreRefused) {
  std::string list;
  size_t size = 4096;
  for (size_t i = 0; size < (1U << 24) - 1; ++i) {
    const size_t id = std::min<size_t>((1U << 24) - 1, 4 * (size + 1024));
    list += (i > 0 ? "," : "") + AddedToken(id, "<x" + std::to_string(i) + ">");
    size = id + 1;
  }
  try {
    ParseTokenizerSpec(InTokenizer("/added_tokens", "[" + list + "]"), "tokenizer.json");
    ADD_FAILURE() << "the ids were accepted";
  } catch (const BadInputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("far outside the vocabulary"));
  }
}

// Ten million spaces were more steps than the expression might take, and failed without the file's name.
TEST(Limits, TenMillionSpacesAreTokens) {
  const Tokenizer tokenizer = Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  const std::string spaces(10'000'000, ' ');
  const std::vector<int32_t> ids = tokenizer.Encode(spaces, false);
  EXPECT_EQ(tokenizer.Decode(ids), spaces);
}

// libstdc++'s hash of 16 bytes, whatever its seed, is the same for 2^n texts that are made of these two pairs of words.
std::vector<std::string> TextsOfOneHash(int doublings) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995U;
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
  const auto mix = [&](uint64_t word) {
    word *= kFactor;
    return (word ^ word >> 47) * kFactor;
  };
  const auto unmix = [&](uint64_t word) {
    word *= inverse;
    return (word ^ word >> 47) * inverse;
  };
  const uint64_t first = 0x6161616161616161U;
  const uint64_t second = unmix(mix(first) ^ uint64_t{1} << 63);
  std::string words[2];
  for (const auto& [word, text] : {std::pair{first, &words[0]}, {second, &words[1]}}) {
    for (int repeat = 0; repeat < 2; ++repeat) text->append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  std::vector<std::string> texts = {""};
  for (int i = 0; i < doublings; ++i) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const std::string& word : words) longer.push_back(text + word);
    }
    texts = std::move(longer);
  }
  return texts;
}

TEST(SeededHash, TellsApartWhatTheStandardHashDoesNot) {
  const std::vector<std::string> texts = TextsOfOneHash(12);
  std::set<size_t> standard;
  std::set<size_t> seeded;
  for (const std::string& text : texts) {
    standard.insert(std::hash<std::string>()(text));
    seeded.insert(SeededHash()(text));
  }
  EXPECT_EQ(standard.size(), 1U) << "the attack itself works";
  EXPECT_EQ(seeded.size(), texts.size());
  EXPECT_EQ(SeededHash()("a"), SeededHash()("a"));
  EXPECT_NE(SeededHash()("a"), SeededHash()(std::string_view("a\0", 2)));
}

}  // namespace
}  // namespace headscope::model
