// SPDX-License-Identifier: Apache-2.0
// How many megabytes of text a second a tokenizer turns into ids, on one core: by processor time, since other programs
// take the clock's.
//
//   tokenizer_benchmark TEXT TOKENIZER.. [--megabytes N] [--repeat N] [--model-type NAME]
//
// TEXT: a UTF-8 file, which is repeated to the length. It is encoded as it is, and without its white space, so that
// merging and splitting see one word. TOKENIZER: tokenizer.json, tokenizer.model or qwen.tiktoken; a list of tokens by
// rank is read as a model of that type reads it. Printed is the best of the repetitions, of each text.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "model/tokenizer.h"

namespace headscope {
namespace {

std::string Repeated(const std::string& part, size_t bytes) {
  std::string text;
  text.reserve(bytes + part.size());
  while (text.size() < bytes) text += part;
  text.resize(bytes);
  text.resize(model::Utf8Length(text));  // no half of a character
  return text;
}

double BestMegabytesPerSecond(const model::Tokenizer& tokenizer, const std::string& text, int repeat, size_t* ids) {
  double best = 0;
  for (int i = 0; i < repeat; ++i) {
    const std::clock_t begin = std::clock();
    *ids = tokenizer.Encode(text, false).size();
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best = std::max(best, static_cast<double>(text.size()) / 1e6 / seconds);
  }
  return best;
}

int Run(int argc, char** argv) {
  CLI::App app("Megabytes of text a second that tokenizers take on one core");
  std::string text_file;
  std::vector<std::string> files;
  int megabytes = 4, repeat = 5;
  std::string model_type = "llama";
  app.add_option("text", text_file, "A UTF-8 file")->required();
  app.add_option("tokenizers", files, "tokenizer.json, tokenizer.model or qwen.tiktoken")->required();
  app.add_option("--megabytes", megabytes, "Length of the text")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--repeat", repeat, "Repetitions")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--model-type", model_type, "Whose a list of tokens by rank is")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  std::ifstream file(text_file, std::ios::binary);
  const std::string read{std::istreambuf_iterator<char>(file), {}};
  std::string joined;
  std::ranges::copy_if(read, std::back_inserter(joined), [](char c) { return c < 0 || c > ' '; });
  if (joined.empty()) {
    std::cerr << text_file << ": cannot be read or has no words; name a text\n";
    return 3;
  }
  const size_t bytes = static_cast<size_t>(megabytes) * 1'000'000;
  model::ModelConfig config;
  config.model_type = model_type;
  std::cout << "MB/s of text   without spaces   tokenizer\n";
  for (const std::string& path : files) {
    const model::Tokenizer tokenizer = model::Tokenizer::Load(path, &config);
    size_t ids = 0, joined_ids = 0;
    const double text = BestMegabytesPerSecond(tokenizer, Repeated(read, bytes), repeat, &ids);
    const double word = BestMegabytesPerSecond(tokenizer, Repeated(joined, bytes), repeat, &joined_ids);
    std::printf("%12.1f   %14.1f   %s (%zu and %zu ids)\n", text, word, path.c_str(), ids, joined_ids);
  }
  return 0;
}

}  // namespace
}  // namespace headscope

int main(int argc, char** argv) {
  try {
    return headscope::Run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "tokenizer_benchmark: " << error.what() << '\n';
    return 1;
  }
}
