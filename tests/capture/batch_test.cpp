// SPDX-License-Identifier: Apache-2.0
// Files of prompts, and the traces of many.
#include "capture/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stop_token>

#include "base/errors.h"
#include "base/output_claim.h"
#include "base/random.h"
#include "capture/prompt_lines.h"
#include "checkpoint_files.h"
#include "data/trace_reader.h"
#include "manifest_fuzz.h"
#include "prompt_lines_fuzz.h"
#include "support/mutate.h"

namespace headscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(PromptLines, AreTextsOrTokensWithNames) {
  const std::vector<PromptLine> lines = ParsePromptLines(
      "{\"text\": \"a\\nb\"}\n\n  \n{\"tokens\": [1, 22, 0], \"name\": \"second.try-2\"}\r\n{\"text\":\"x\"}", "f");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].text, "a\nb");
  EXPECT_EQ(lines[0].name, "prompt-1");
  EXPECT_THAT(lines[1].tokens, ElementsAre(1, 22, 0));
  EXPECT_EQ(lines[1].name, "second.try-2");
  EXPECT_EQ(lines[1].line, 4);
  EXPECT_EQ(lines[2].name, "prompt-5");
}

std::string Refusal(const std::string& text) {
  try {
    ParsePromptLines(text, "f.jsonl");
  } catch (const BadInputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PromptLines, NameFileAndLineOfWhatIsWrong) {
  const std::string good = "{\"text\": \"a\"}\n";
  for (const auto& [line, problem] : std::initializer_list<std::pair<std::string, std::string>>{
           {"{", "is not a JSON object"},
           {"[]", "is not a JSON object"},
           {"\"a\"", "is not a JSON object"},
           {"null", "is not a JSON object"},
           {"\xff\xfe{", "is not a JSON object"},
           {"{\"text\": \"\xff\"}", "is not a JSON object"},
           {"{\"text\": \"a\"} {\"text\": \"b\"}", "is not a JSON object"},
           {"{}", "neither a text nor tokens"},
           {"{\"tokens\": []}", "neither a text nor tokens"},
           {"{\"text\": \"a\", \"tokens\": [1]}", "both a text and tokens"},
           {"{\"text\": \"\"}", "is empty"},
           {"{\"text\": 1}", "text is not a string"},
           {"{\"text\": [\"a\"]}", "text is not a string"},
           {"{\"text\": {\"a\": 1}}", "text is not a string"},
           {"{\"tokens\": \"1\"}", "not a list of ids"},
           {"{\"tokens\": [\"1\"]}", "not a list of ids"},
           {"{\"tokens\": [[1]]}", "not a list of ids"},
           {"{\"tokens\": [-1]}", "not an id"},
           {"{\"tokens\": [1.5]}", "not an id"},
           {"{\"tokens\": [2147483648]}", "not an id"},
           {"{\"tokens\": [1e999]}", "is not a JSON object"},
           {"{\"text\": \"a\", \"text\": \"b\"}", "twice"},
           {"{\"text\": \"a\", \"prompt_file\": \"/etc/passwd\"}", "not known"},
           {"{\"text\": \"a\", \"name\": \"../x\"}", "is not valid as a file name"},
           {"{\"text\": \"a\", \"name\": \".x\"}", "is not valid as a file name"},
           {"{\"text\": \"a\", \"name\": \"\"}", "is not valid as a file name"},
           {"{\"text\": \"a\", \"name\": \"a\\u0000\"}", "is not valid as a file name"},
           {"{\"text\": \"a\", \"name\": \"prompt-1\"}", "like an earlier line"},
           {std::string(100000, '['), "is not a JSON object"},
       }) {
    EXPECT_THAT(Refusal(good + line), AllOf(HasSubstr("f.jsonl: line 2"), HasSubstr(problem), HasSubstr("; ")))
        << line.substr(0, 80);
  }
  EXPECT_THAT(Refusal(""), HasSubstr("holds no prompt"));
  EXPECT_THAT(Refusal("\n \n"), HasSubstr("holds no prompt"));
}

TEST(PromptLines, DamagedFilesAreAcceptedOrRefused) {
  const std::string seed = "{\"text\": \"a \\u00e9\", \"name\": \"one\"}\n{\"tokens\": [1, 2, 3]}\n";
  Random random(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed;
    for (size_t edit = random.Below(4); edit < 4; ++edit) {
      const size_t at = random.Below(text.size());
      if (random.Below(2) == 0) {
        text[at] = static_cast<char>(random.Next());
      } else {
        text.insert(at, text.substr(random.Below(text.size()), 1 + random.Below(12)));
      }
    }
    refused += FuzzPromptLines(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 20000);
}

// What lies deep in a file of that name was copied and written level by level until the stack was used up.
TEST(Manifest, DamagedOnesAreRefusedInASentence) {
  const std::string whole = ReadWholeFile(HEADSCOPE_SOURCE_DIR "/tests/corpus/capture_manifest/two");
  const auto run = [](const std::string& text) {
    return FuzzManifest(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  EXPECT_EQ(run(whole), 0);
  Random random(5);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) refused += run(Mutate(whole, &random));
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 5000);
  const std::string deep(1 << 20, '[');
  EXPECT_EQ(run(R"({"schema":"headscope-captures-1","captures":[{"line":1,"bytes":1,"complete":true,"x":)" + deep), 1);
  EXPECT_EQ(run(R"({"schema":"of another program",)" + whole.substr(whole.find('{') + 1)), 1) << "a name twice";
  EXPECT_EQ(
      run(R"({"schema":"headscope-captures-1","prompts":)" + deep + std::string(1 << 20, ']') + R"(,"captures":[]})"),
      1);
}

BatchRequest Request(const TemporaryFolder& folder, const std::string& prompts) {
  BatchRequest request;
  request.common.model_dir = ReferenceModel();
  request.common.output_path = folder.File("traces");
  request.common.chunk_tokens = 16;
  request.common.decode_tokens = 2;
  request.prompts_file = folder.Write("prompts.jsonl", prompts);
  return request;
}

nlohmann::json ManifestOf(const BatchResult& result) {
  return nlohmann::json::parse(ReadWholeFile(result.manifest_path));
}

const std::string kPrompts =
    "{\"text\": \"The quick brown fox jumps over the lazy dog.\", \"name\": \"fox\"}\n"
    "{\"tokens\": [5, 6, 7, 8, 9]}\n"
    "{\"text\": \"The pass key is 99405. Remember it.\"}\n";

// Each trace is that of a capture of its own, whatever was captured before.
TEST(Batch, MakesTheTracesOfCapturesAlone) {
  const TemporaryFolder folder;
  BatchRequest request = Request(folder, kPrompts);
  request.common.record = {model::CapturePoint::kValueNorms, model::CapturePoint::kPreRope};
  std::vector<std::string> stages;
  const BatchResult result =
      CaptureBatch(request, [&](const Progress& progress) { stages.push_back(progress.stage); }, {});
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.num_done, 3);
  EXPECT_THAT(stages, ::testing::IsSupersetOf({"prompt 1 of 3: prefill", "prompt 3 of 3: decode"}));
  const nlohmann::json manifest = ManifestOf(result);
  EXPECT_EQ(manifest["schema"], "headscope-captures-1");
  EXPECT_EQ(manifest["options"]["record"], (nlohmann::json{"pre-rope", "value-norms"})) << "by name, in one order";
  ASSERT_EQ(manifest["captures"].size(), 3U);
  CaptureRequest alone = request.common;
  alone.output_path = folder.File("alone.h5");
  alone.text = "The pass key is 99405. Remember it.";
  const CaptureResult one = Capture(alone, {}, {});
  const nlohmann::json& last = manifest["captures"][2];
  EXPECT_EQ(last["file"], "prompt-3.h5");
  EXPECT_EQ(last["generated"], one.generated_text);
  EXPECT_EQ(last["complete"], true);
  const data::TraceReader expected(folder.File("alone.h5")), found(folder.File("traces/prompt-3.h5"));
  ASSERT_EQ(found.num_tokens(), expected.num_tokens());
  EXPECT_EQ(found.layout().facts, expected.layout().facts);
  const auto count = static_cast<size_t>(expected.num_rows());
  std::vector<float> a(count), b(count);
  expected.ReadLse(3, 2, 0, expected.num_rows(), a.data());
  found.ReadLse(3, 2, 0, expected.num_rows(), b.data());
  EXPECT_EQ(a, b);
  EXPECT_EQ(data::TraceReader(folder.File("traces/fox.h5")).layout().prompt_source, "text");
}

TEST(Batch, APlanNamesTheTracesAndWritesNothing) {
  const TemporaryFolder folder;
  BatchRequest request = Request(folder, kPrompts);
  std::vector<BatchPlan> plans = PlanBatch(request, {});
  EXPECT_FALSE(std::filesystem::exists(folder.File("traces")));
  ASSERT_EQ(plans.size(), 3U);
  EXPECT_EQ(plans[1].path, folder.File("traces/prompt-2.h5"));
  EXPECT_EQ(plans[1].capture.num_prompt_tokens, 5);
  EXPECT_EQ(plans[1].capture.num_rows, 7);
  CaptureBatch(request, {}, {});
  EXPECT_EQ(data::TraceReader(plans[1].path).num_rows(), 7);
  EXPECT_THROW(PlanBatch(request, {}), EarlierBatchError);
  request.resume = true;
  EXPECT_THAT(PlanBatch(request, {}), ::testing::IsEmpty());
  std::filesystem::remove(plans[1].path);
  plans = PlanBatch(request, {});
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0].path, folder.File("traces/prompt-2.h5"));
}

TEST(Batch, GoesOnWhereItWasStopped) {
  const TemporaryFolder folder;
  BatchRequest request = Request(folder, kPrompts);
  std::stop_source stop;
  const BatchResult first = CaptureBatch(
      request,
      [&](const Progress& progress) {
        if (progress.stage == "prompt 2 of 3: prefill") stop.request_stop();
      },
      stop.get_token());
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.num_done, 1);
  const auto written = std::filesystem::last_write_time(folder.File("traces/fox.h5"));
  EXPECT_THROW(CaptureBatch(request, {}, {}), EarlierBatchError);
  request.resume = true;
  request.common.decode_tokens = 3;
  EXPECT_THROW(CaptureBatch(request, {}, {}), UsageError) << "of other options";
  request.common.decode_tokens = 2;
  const BatchResult second = CaptureBatch(request, {}, {});
  EXPECT_FALSE(second.interrupted);
  EXPECT_EQ(second.num_done, 3);
  EXPECT_EQ(std::filesystem::last_write_time(folder.File("traces/fox.h5")), written) << "what is whole stays";
  std::vector<std::string> names;
  const nlohmann::json manifest = ManifestOf(second);
  for (const nlohmann::json& capture : manifest["captures"]) {
    names.push_back(capture["name"]);
    EXPECT_EQ(capture["complete"], true);
    EXPECT_EQ(data::TraceReader(folder.File("traces/" + capture["file"].get<std::string>())).num_tokens(),
              capture["tokens"].get<int64_t>());
  }
  EXPECT_THAT(names, ElementsAre("fox", "prompt-2", "prompt-3"));
  folder.Write("prompts.jsonl", kPrompts + "{\"text\": \"b\"}");
  EXPECT_THROW(CaptureBatch(request, {}, {}), UsageError) << "of other prompts";
  folder.Write("traces/manifest.json", "{\"schema\": 3}");
  folder.Write("prompts.jsonl", kPrompts);
  EXPECT_THROW(CaptureBatch(request, {}, {}), BadInputError);
}

// Before the prompts and the model are read, whatever else is wrong with them.
TEST(Batch, AnEarlierRunIsRefusedFirst) {
  const TemporaryFolder folder;
  BatchRequest request = Request(folder, kPrompts);
  request.prompts_file = folder.File("none.jsonl");
  request.common.model_dir = folder.File("no model");
  std::filesystem::create_directory(folder.File("traces"));
  folder.Write("traces/manifest.json", "{}");
  const auto refused = ::testing::ThrowsMessage<EarlierBatchError>(
      "output " + folder.File("traces") +
      ": the folder holds the traces of an earlier run (manifest.json); choose another folder");
  EXPECT_THAT([&] { CaptureBatch(request, {}, {}); }, refused);
  EXPECT_THAT([&] { PlanBatch(request, {}); }, refused);
  {
    const OutputClaim running(folder.File("traces/manifest.json"), "capture");
    EXPECT_THAT([&] { CaptureBatch(request, {}, {}); },
                ::testing::ThrowsMessage<UsageError>(HasSubstr("a capture to it is running")));
  }
  request.resume = true;
  EXPECT_THAT([&] { CaptureBatch(request, {}, {}); }, ::testing::ThrowsMessage<BadInputError>(HasSubstr("none.jsonl")));
}

TEST(Batch, RefusesBeforeItBegins) {
  const TemporaryFolder folder;
  const auto refusal = [&](const BatchRequest& request) {
    try {
      CaptureBatch(request, {}, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  BatchRequest request = Request(folder, "{\"text\": \"a\"}\n{\"tokens\": [99999]}");
  EXPECT_THAT([&] { CaptureBatch(request, {}, {}); },
              ::testing::ThrowsMessage<BadInputError>(
                  HasSubstr("prompts.jsonl: line 2: tokens 99999: the model's ids are 0 to 4095")));
  EXPECT_THAT([&] { PlanBatch(request, {}); }, ::testing::Throws<BadInputError>());
  std::string many = "1";
  for (int i = 1; i < 20'000; ++i) many += ",1";
  request = Request(folder, "{\"tokens\": [" + many + "]}");
  request.common.decode_tokens = 0;
  EXPECT_THAT([&] { CaptureBatch(request, {}, {}); },
              ::testing::ThrowsMessage<BadInputError>(HasSubstr("prompts.jsonl: line 1: ")));
  request.common.decode_tokens = 3;
  EXPECT_THAT([&] { CaptureBatch(request, {}, {}); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("prompts.jsonl: line 1: ")));
  request = Request(folder, kPrompts);
  request.common.rows = "0:6";
  EXPECT_THAT(refusal(request), HasSubstr("prompts.jsonl: line 2: rows \"0:6\": the prompt has the rows 0 to 4"));
  // What is set for all prompts was said of the first line.
  request.common.rows = "6:0";
  EXPECT_THAT(refusal(request), StartsWith("rows \"6:0\": "));
  request = Request(folder, kPrompts);
  request.common.layers = {99};
  EXPECT_THAT(refusal(request), StartsWith("layers 99: "));
  request.common.layers = {};
  request.common.heads = {99};
  EXPECT_THAT(refusal(request), StartsWith("heads 99: "));
  EXPECT_FALSE(std::filesystem::exists(folder.File("traces/manifest.json")));
  request = Request(folder, kPrompts);
  request.common.output_path = request.prompts_file;
  EXPECT_THAT(refusal(request), HasSubstr("folder"));
}

}  // namespace
}  // namespace headscope::capture
