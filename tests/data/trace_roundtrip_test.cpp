// SPDX-License-Identifier: Apache-2.0
// What is written comes back: every encoding, ragged passes, selections, misuse, and reading beside a living writer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <thread>

#include "base/errors.h"
#include "data/row_positions.h"
#include "synthetic_trace.h"

namespace headscope::data {
namespace {

using testing::AppendPass;
using testing::FirstDifference;
using ::testing::HasSubstr;
using testing::ScratchFolder;
using testing::SmallLayout;
using ::testing::ThrowsMessage;
using testing::WriteTrace;

constexpr size_t kOneOpenChunk = 1;  // bytes for them: HDF5's cache keeps one chunk of each tensor

class Encodings : public ::testing::TestWithParam<ElementType> {};

TEST_P(Encodings, EveryValueComesBackWhateverTheLengthOfThePasses) {
  const ScratchFolder folder;
  for (const size_t open_chunk_bytes : {kOpenChunkBytes, kOneOpenChunk}) {
    for (const int64_t pass : {1, 7, 64, 1000}) {
      const std::string path = folder.File(std::to_string(open_chunk_bytes) + "-" + std::to_string(pass) + ".h5");
      WriteTrace(path, SmallLayout(GetParam(), 500), 300, pass, 0, TraceStorage::kPlain, open_chunk_bytes);
      const TraceReader reader(path);
      EXPECT_TRUE(reader.complete());
      EXPECT_EQ(reader.num_tokens(), 300);
      EXPECT_EQ(reader.num_rows(), 150);
      EXPECT_EQ(FirstDifference(reader, 300), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Encodings,
                         ::testing::Values(ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16));

TEST(TraceRoundTrip, LayoutComesBack) {
  const ScratchFolder folder;
  TraceLayout layout = SmallLayout(ElementType::kBFloat16, 10);
  for (LayerFacts& facts : layout.facts) {
    facts.soft_cap = 30;
    facts.rope.convention = RopeConvention::kInterleaved;
  }
  layout.prompt_source = "task passkey length 4096 seed 1";
  layout.model.config_json = std::string(200000, 'x');
  layout.first_token = 12;
  layout.attention = "a-shape:n_sink=2,n_local=16 and decode/dense";
  WriteTrace(folder.File("t.h5"), layout, 10, 10);
  const TraceReader reader(folder.File("t.h5"));
  const TraceLayout& found = reader.layout();
  EXPECT_EQ(found.model.name, "synthetic");
  EXPECT_EQ(found.model.model_type, "llama");
  EXPECT_EQ(found.model.config_json, layout.model.config_json);
  EXPECT_EQ(found.model.weights_sha256, std::string(64, 'a'));
  EXPECT_EQ(found.model.tokenizer_sha256, std::string(64, 'b'));
  EXPECT_EQ(found.model.num_layers, 5);
  EXPECT_EQ(found.model.num_qo_heads, 8);
  EXPECT_EQ(found.model.num_kv_heads, 4);
  EXPECT_EQ(found.model.head_dim, 16);
  EXPECT_EQ(found.layers, layout.layers);
  EXPECT_EQ(found.facts, layout.facts);
  EXPECT_EQ(found.capture_point, "post-rope");
  EXPECT_EQ(found.attention, layout.attention);
  EXPECT_EQ(found.row_selection, "every:2");
  EXPECT_EQ(found.prompt_source, layout.prompt_source);
  EXPECT_EQ(found.task_answer, " 99405");
  EXPECT_EQ(found.answer_tokens, 2);
  EXPECT_EQ(found.answer_score, 1);
  EXPECT_EQ(found.max_tokens, 10);
  EXPECT_EQ(found.first_token, 12);
  EXPECT_EQ(reader.LayerSlot(2), 1);
  EXPECT_EQ(reader.LayerSlot(1), -1);
  EXPECT_EQ(reader.QoHeadSlot(1, 5), 3);
  EXPECT_EQ(reader.KvHeadSlot(1, 3), -1);
}

// Every row of an encoder's layer sees all tokens, and its log-sum-exp counts them; such a trace is of format 3.
TEST(TraceRoundTrip, LayersInBothDirectionsComeBack) {
  const ScratchFolder folder;
  TraceLayout layout = SmallLayout(ElementType::kFloat32, 30);
  layout.facts[1].bidirectional = true;
  layout.facts[1].window = 0;
  layout.model.layer_kinds.clear();
  WriteTrace(folder.File("t.h5"), layout, 30, 30);
  const TraceReader reader(folder.File("t.h5"));
  EXPECT_EQ(reader.layout().facts, layout.facts);
  EXPECT_EQ(FirstDifference(reader, 30), "");

  const hid_t file = H5Fopen(folder.File("t.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hid_t version = H5Aopen(file, "version", H5P_DEFAULT), keys = H5Dopen2(file, "attention/lse_keys", H5P_DEFAULT);
  int32_t found = 0;
  H5Aread(version, H5T_NATIVE_INT32, &found);
  EXPECT_EQ(found, 3);
  std::vector<int64_t> counts(static_cast<size_t>(std::ssize(layout.layers) * reader.num_rows()));
  H5Dread(keys, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, counts.data());
  H5Dclose(keys);
  H5Aclose(version);
  H5Fclose(file);
  for (int64_t row = 0; row < reader.num_rows(); ++row) {
    EXPECT_EQ(counts[static_cast<size_t>(reader.num_rows() + row)], 30) << "row " << row;
    EXPECT_LE(counts[static_cast<size_t>(row)], reader.row_positions()[static_cast<size_t>(row)] + 1) << "row " << row;
  }
}

TEST_P(Encodings, LayersThatDifferComeBack) {
  const ScratchFolder folder;
  const TraceLayout layout = testing::DifferingLayout(GetParam(), 100);
  WriteTrace(folder.File("t.h5"), layout, 60, 7);
  const TraceReader reader(folder.File("t.h5"));
  EXPECT_EQ(reader.layout().facts, layout.facts);
  EXPECT_EQ(reader.layout().model.layer_kinds, layout.model.layer_kinds);
  EXPECT_EQ(FirstDifference(reader, 60), "");
  // Heads are a layer's own; layer 4 reads the keys of layer 3, and both have their first 12 components as values.
  EXPECT_EQ(reader.QoHeadSlot(0, 5), 2);
  EXPECT_EQ(reader.QoHeadSlot(1, 5), -1);
  std::vector<unsigned char> k(60 * 32 * 4), v(60 * 12 * 4);
  const auto size = static_cast<size_t>(SizeOf(GetParam()));
  reader.ReadK(2, 0, 0, 60, k.data());
  reader.ReadV(3, 0, 0, 60, v.data());
  EXPECT_TRUE(std::equal(v.begin(), v.begin() + static_cast<ptrdiff_t>(12 * size), k.begin()));
  EXPECT_TRUE(std::equal(v.begin() + static_cast<ptrdiff_t>(59 * 12 * size),
                         v.begin() + static_cast<ptrdiff_t>(60 * 12 * size),
                         k.begin() + static_cast<ptrdiff_t>(59 * 32 * size)));
  EXPECT_THROW(reader.Read(TraceTensor::kSelection, 0, 0, 0, 1, k.data()), std::out_of_range);
}

// Written by the headscope of format 1. Every value in it is read as it was then.
TEST(FormatOne, GoldenFileStaysReadable) {
  const TraceReader reader(HEADSCOPE_FORMAT_1_TRACE);
  const TraceLayout& layout = reader.layout();
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(layout.model.name, "synthetic");
  EXPECT_EQ(layout.model.model_type, "llama");
  EXPECT_EQ(layout.model.config_json, R"({"hidden_size": 128})");
  EXPECT_EQ(layout.model.weights_sha256, std::string(64, 'a'));
  EXPECT_EQ(layout.model.tokenizer_sha256, std::string(64, 'b'));
  EXPECT_EQ(layout.model.num_layers, 5);
  EXPECT_EQ(layout.model.num_qo_heads, 8);
  EXPECT_EQ(layout.model.num_kv_heads, 4);
  EXPECT_EQ(layout.model.head_dim, 4);
  EXPECT_TRUE(layout.model.layer_kinds.empty());
  EXPECT_EQ(layout.layers, (std::vector<int32_t>{0, 2}));
  LayerFacts expected{.num_qo_heads = 8,
                      .num_kv_heads = 4,
                      .head_dim = 4,
                      .v_head_dim = 4,
                      .qo_heads = {1, 2},
                      .kv_heads = {0, 1},
                      .softmax_scale = 0.375f,
                      .soft_cap = 30,
                      .rope = {.convention = RopeConvention::kInterleaved}};
  EXPECT_EQ(reader.layer(0), expected);
  expected.window = 4;
  EXPECT_EQ(reader.layer(1), expected);
  EXPECT_EQ(layout.encoding, ElementType::kBFloat16);
  EXPECT_EQ(layout.capture_point, "post-rope");
  EXPECT_EQ(layout.row_selection, "every:2");
  EXPECT_EQ(layout.prompt_source, "text");
  EXPECT_EQ(layout.task_answer, " 99405");
  EXPECT_EQ(layout.max_tokens, 12);
  EXPECT_EQ(layout.first_token, 12);
  EXPECT_EQ(reader.num_tokens(), 12);
  EXPECT_EQ(reader.num_rows(), 6);
  EXPECT_EQ(FirstDifference(reader, 9), "");
}

TEST(TraceRoundTrip, AnAnswerIsJudgedWhenItIsThere) {
  const ScratchFolder folder;
  TraceLayout layout = SmallLayout(ElementType::kFloat32, 10);
  layout.answer_score = std::numeric_limits<float>::quiet_NaN();
  {
    TraceWriter writer(folder.File("t.h5"), layout, /*overwrite=*/false);
    writer.Flush();
    EXPECT_TRUE(std::isnan(TraceReader(folder.File("t.h5")).layout().answer_score));
    writer.SetAnswerScore(0.5F);
    writer.Flush();
    EXPECT_EQ(TraceReader(folder.File("t.h5")).layout().answer_score, 0.5F) << "while it is written";
  }
  layout.answer_tokens = 0;
  TraceWriter writer(folder.File("without.h5"), layout, /*overwrite=*/false);
  EXPECT_THROW(writer.SetAnswerScore(1), FailedError);
  writer.Flush();
  const TraceReader without(folder.File("without.h5"));
  EXPECT_EQ(without.layout().answer_tokens, 0);
  EXPECT_TRUE(std::isnan(without.layout().answer_score));
  layout.answer_tokens = 1;
  layout.answer_score = 2;
  EXPECT_THROW(TraceWriter(folder.File("other.h5"), layout, /*overwrite=*/false), FailedError);
}

TEST(TraceRoundTrip, RangesReadAloneEqualTheirPartOfTheWhole) {
  const ScratchFolder folder;
  TraceLayout layout = SmallLayout(ElementType::kFloat32, 9000);  // several chunks
  layout.row_selection = "all";
  testing::SetHeadDim(&layout, 64);
  WriteTrace(folder.File("t.h5"), layout, 3000, 700);
  const TraceReader reader(folder.File("t.h5"));
  std::vector<float> whole(3000 * 64), part(2000 * 64);
  reader.ReadQ(2, 3, 0, 3000, whole.data());
  for (const auto& [begin, end] : {std::pair{0, 1}, {1023, 1025}, {1, 2000}, {2999, 3000}, {77, 77}}) {
    reader.ReadQ(2, 3, begin, end, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.begin() + (end - begin) * 64, whole.begin() + begin * 64))
        << begin << ":" << end;
  }
  EXPECT_THROW(reader.ReadQ(2, 3, 0, 3001, whole.data()), std::out_of_range);
  EXPECT_THROW(reader.ReadQ(2, 3, -1, 3, whole.data()), std::out_of_range);
  EXPECT_THROW(reader.ReadQ(3, 3, 0, 1, whole.data()), std::out_of_range);
  EXPECT_THROW(reader.ReadK(2, 3, 0, 1, whole.data()), std::out_of_range);
}

// Chunks are filled whatever the number of tokens: a few decode steps after a round prompt must not open a chunk per
// head that stays nearly empty.
TEST(TraceRoundTrip, FileIsLessThanATenthLargerThanItsValues) {
  const ScratchFolder folder;
  for (const int64_t num_tokens : {1000, 2048, 2049, 4104, 5000}) {
    for (const char* rows : {"all", "every:2"}) {
      TraceLayout layout = SmallLayout(ElementType::kBFloat16, num_tokens);
      testing::SetHeadDim(&layout, 64);  // 2048 tokens fill the largest chunk
      layout.row_selection = rows;
      const int64_t num_rows = layout.row_selection == "all" ? num_tokens : (num_tokens + 1) / 2;
      const std::string path = folder.File(rows + std::to_string(num_tokens) + ".h5");
      WriteTrace(path, layout, num_tokens, 512, num_rows);
      const auto layers = static_cast<int64_t>(layout.layers.size());
      const auto qo_heads = static_cast<int64_t>(layout.facts[0].qo_heads.size());
      const auto kv_heads = static_cast<int64_t>(layout.facts[0].kv_heads.size());
      const int64_t values = layers * (qo_heads * num_rows * (64 * 2 + 4) + 2 * kv_heads * num_tokens * 64 * 2);
      const auto bytes = static_cast<double>(std::filesystem::file_size(path));
      EXPECT_LT(bytes / static_cast<double>(values), 1.1) << num_tokens << " tokens, rows " << rows;
      EXPECT_EQ(FirstDifference(TraceReader(path), num_tokens), "");
    }
  }
}

// The chunks of a tensor as they are stored, checksums too, in the order of their places.
std::vector<std::vector<unsigned char>> StoredChunks(hid_t file, const std::string& name) {
  SCOPED_TRACE(name);
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT), space = H5Dget_space(dataset),
              creation = H5Dget_create_plist(dataset);
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> extents(static_cast<size_t>(rank)), sizes(extents.size()), offset(extents.size());
  H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  H5Pget_chunk(creation, rank, sizes.data());
  std::vector<std::vector<unsigned char>> chunks;
  for (size_t axis = 0; axis < extents.size();) {
    hsize_t bytes = 0;
    uint32_t left_out = 0;
    EXPECT_GE(H5Dget_chunk_storage_size(dataset, offset.data(), &bytes), 0);
    std::vector<unsigned char>& chunk = chunks.emplace_back(bytes);
    EXPECT_GE(H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &left_out, chunk.data()), 0);
    EXPECT_EQ(left_out, 0u) << "a filter was left out";
    for (axis = 0; axis < extents.size(); ++axis) {  // the next place
      offset[axis] += sizes[axis];
      if (offset[axis] < extents[axis]) break;
      offset[axis] = 0;
    }
  }
  H5Pclose(creation);
  H5Sclose(space);
  H5Dclose(dataset);
  return chunks;
}

TEST(TraceRoundTrip, ChunksAreTheSameWhoeverKeepsThemOpen) {
  const ScratchFolder folder;
  TraceLayout layout = SmallLayout(ElementType::kFloat32, 1000);
  testing::SetHeadDim(&layout, 192);  // chunks of 341 tokens, the last of them not full
  for (const int64_t pass : {1, 77, 360}) {
    SCOPED_TRACE("passes of " + std::to_string(pass));
    const std::string own = folder.File("own-" + std::to_string(pass)),
                      cached = folder.File("cached-" + std::to_string(pass));
    const int64_t num_tokens = pass == 1 ? 350 : 850;
    WriteTrace(own, layout, num_tokens, pass);
    WriteTrace(cached, layout, num_tokens, pass, 0, TraceStorage::kPlain, kOneOpenChunk);
    const hid_t files[] = {H5Fopen(own.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
                           H5Fopen(cached.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)};
    for (const char* name : {"attention/q", "attention/k", "attention/v", "attention/lse", "attention/lse_keys"}) {
      const auto chunks = StoredChunks(files[0], name);
      EXPECT_GE(chunks.size(), 3u);
      EXPECT_TRUE(chunks == StoredChunks(files[1], name)) << name;
    }
    for (const hid_t file : files) H5Fclose(file);
    EXPECT_EQ(FirstDifference(TraceReader(cached), num_tokens), "");
  }
}

TEST(TraceRoundTrip, OpenChunksAreCountedAsTheyAreKept) {
  TraceLayout layout = SmallLayout(ElementType::kBFloat16, 1 << 20);
  testing::SetHeadDim(&layout, 128);
  constexpr int64_t kVectors = 3 * (4 + 3 + 3) * (256 << 10), kScalars = 3 * 4 * (32 << 10) + 3 * (64 << 10);
  EXPECT_EQ(BytesOfOpenChunks(layout, 1 << 20), kVectors + kScalars);
  layout.max_tokens = 10;
  EXPECT_EQ(BytesOfOpenChunks(layout, 5), 3 * (4 * 5 + 6 * 10) * 256 + 3 * 5 * (4 * 4 + 8));
  // More heads than there is room for.
  layout.max_tokens = 1 << 20;
  layout.model.num_layers = 4000;
  layout.facts.assign(4000, layout.facts[0]);
  layout.layers.resize(4000);
  std::iota(layout.layers.begin(), layout.layers.end(), 0);
  EXPECT_LE(BytesOfOpenChunks(layout, 1 << 20), static_cast<int64_t>(kOpenChunkBytes + kOpenChunkBytes / 4));
  EXPECT_GE(BytesOfOpenChunks(layout, 1 << 20), static_cast<int64_t>(kOpenChunkBytes));
}

TEST(TraceRoundTrip, WholeTraceOfOneTokenWorks) {
  const ScratchFolder folder;
  WriteTrace(folder.File("t.h5"), SmallLayout(ElementType::kBFloat16, 1), 1, 1);
  const TraceReader reader(folder.File("t.h5"));
  EXPECT_EQ(reader.num_tokens(), 1);
  EXPECT_EQ(FirstDifference(reader, 1), "");
}

TEST(RowPositions, AreContiguousWhenNoTokenBetweenThemIsMissing) {
  EXPECT_TRUE(RowsContiguous({}));
  EXPECT_TRUE(RowsContiguous({5}));
  EXPECT_TRUE(RowsContiguous({5, 6, 7}));
  EXPECT_FALSE(RowsContiguous({5, 7}));
  EXPECT_FALSE(RowsContiguous({0, 2, 3}));
  EXPECT_FALSE(RowsContiguous({0, std::numeric_limits<int32_t>::max()}));
}

TEST(TraceWhileWriting, ReaderInTheSameProcessSeesFlushedTokensOnly) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  const TraceLayout layout = SmallLayout(ElementType::kBFloat16, 400);
  TraceWriter writer(path, layout, false);
  AppendPass(writer, layout, 0, 100, 200);
  writer.Flush();
  AppendPass(writer, layout, 100, 150, 200);
  const TraceReader first(path);
  EXPECT_FALSE(first.complete());
  EXPECT_EQ(first.num_tokens(), 100);
  EXPECT_EQ(FirstDifference(first, 200), "");
  AppendPass(writer, layout, 150, 231, 200);
  writer.Flush();
  const TraceReader second(path);  // beside the first one, which stays as it was
  EXPECT_EQ(second.num_tokens(), 231);
  EXPECT_EQ(FirstDifference(second, 200), "");
  EXPECT_EQ(FirstDifference(first, 200), "");
  writer.Finish();
  const TraceReader third(path);
  EXPECT_TRUE(third.complete());
  EXPECT_EQ(FirstDifference(third, 200), "");
}

TEST(TraceWhileWriting, HalfWrittenPassDoesNotCount) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  const TraceLayout layout = SmallLayout(ElementType::kFloat32, 100);
  {
    TraceWriter writer(path, layout, false);
    AppendPass(writer, layout, 0, 10, 100);
    std::vector<TokenRecord> more = {testing::TokenAt(10, 100), testing::TokenAt(11, 100)};
    writer.AppendTokens(more);  // their blocks never come
    EXPECT_THAT([&] { writer.Finish(); }, ThrowsMessage<FailedError>(HasSubstr("only 10 of 12 tokens")));
    writer.Flush();
  }
  const TraceReader reader(path);
  EXPECT_FALSE(reader.complete());
  EXPECT_EQ(reader.num_tokens(), 10);
  EXPECT_EQ(FirstDifference(reader, 100), "");
}

TEST(TraceWhileWriting, NothingFlushedReadsAsAnEmptyTrace) {
  const ScratchFolder folder;
  const TraceLayout layout = SmallLayout(ElementType::kFloat32, 100);
  { TraceWriter writer(folder.File("t.h5"), layout, false); }
  const TraceReader reader(folder.File("t.h5"));
  EXPECT_EQ(reader.num_tokens(), 0);
  EXPECT_EQ(reader.num_rows(), 0);
}

TEST(TraceWhileWriting, ThreadsMayShareAReader) {
  const ScratchFolder folder;
  WriteTrace(folder.File("t.h5"), SmallLayout(ElementType::kBFloat16, 400), 400, 100);
  const TraceReader reader(folder.File("t.h5"));
  std::vector<std::string> found(4, "not run");
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (std::string& result : found) {
    threads.emplace_back([&] { result = FirstDifference(reader, 400); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(found, ::testing::Each(""));
}

TEST(TraceMisuse, ExistingFileIsKeptUnlessOverwritingIsAllowed) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  std::ofstream(path) << "precious";
  const TraceLayout layout = SmallLayout(ElementType::kFloat32, 100);
  EXPECT_THAT([&] { TraceWriter(path, layout, false); }, ThrowsMessage<FailedError>(HasSubstr("exists already")));
  EXPECT_EQ(std::ifstream(path).get(), 'p');
  { TraceWriter writer(path, layout, true); }
  EXPECT_EQ(TraceReader(path).num_tokens(), 0);
}

TEST(TraceMisuse, FolderThatIsMissingIsNamed) {
  const TraceLayout layout = SmallLayout(ElementType::kFloat32, 100);
  EXPECT_THAT([&] { TraceWriter("/nonexistent/t.h5", layout, false); },
              ThrowsMessage<FailedError>(AllOf(HasSubstr("/nonexistent/t.h5"), HasSubstr("No such file"))));
}

struct BadLayout {
  const char* field;
  void (*spoil)(TraceLayout&);
};

TEST(TraceMisuse, InconsistentLayoutIsRefusedBeforeAFileAppears) {
  const BadLayout cases[] = {
      {"num_layers 0", [](TraceLayout& l) { l.model.num_layers = 0; }},
      {"num_qo_heads 10", [](TraceLayout& l) { l.model.num_qo_heads = 10; }},
      {"num_kv_heads 9", [](TraceLayout& l) { l.model.num_kv_heads = 9; }},
      {"head_dim -1", [](TraceLayout& l) { l.model.head_dim = -1; }},
      {"layers: is empty", [](TraceLayout& l) { l.layers.clear(); }},
      {"layers[2] 5",
       [](TraceLayout& l) {
         l.layers = {0, 1, 5};
       }},
      {"layers 0 after 2",
       [](TraceLayout& l) {
         l.layers = {2, 0, 4};
       }},
      {"layer 0, qo_heads 1 after 1",
       [](TraceLayout& l) {
         l.facts[0].qo_heads = {1, 1};
       }},
      {"layer 0, kv_heads: must name 2",
       [](TraceLayout& l) {
         l.facts[0].kv_heads = {0, 1};
       }},
      {"rope_convention 7", [](TraceLayout& l) { l.facts[0].rope.convention = static_cast<RopeConvention>(7); }},
      {"softmax_scale", [](TraceLayout& l) { l.facts[0].softmax_scale = 0; }},
      {"soft_cap", [](TraceLayout& l) { l.facts[0].soft_cap = std::numeric_limits<float>::quiet_NaN(); }},
      {"facts: has 2 entries", [](TraceLayout& l) { l.facts.pop_back(); }},
      {"layer 2, window -1", [](TraceLayout& l) { l.facts[1].window = -1; }},
      {"layer 2, chunk 8", [](TraceLayout& l) { l.facts[1].chunk = 8; }},
      {"layer 0, num_qo_heads 6", [](TraceLayout& l) { l.facts[0].num_qo_heads = 6; }},
      {"layer 0, rope_dims 4 from rope_first_dim 13",
       [](TraceLayout& l) {
         l.facts[0].rope.num_dims = 4;
         l.facts[0].rope.first_dim = 13;
       }},
      {"layer 4, sinks: has 3 entries",
       [](TraceLayout& l) {
         l.facts[2].sinks = {1, 2, 3};
       }},
      {"layer 4, sinks inf",
       [](TraceLayout& l) { l.facts[2].sinks.assign(8, std::numeric_limits<float>::infinity()); }},
      {"layer 0, v_head_dim 17",
       [](TraceLayout& l) {
         l.facts[0].v_is_k = true;
         l.facts[0].v_head_dim = 17;
       }},
      {"layer 2, kv_layer 2", [](TraceLayout& l) { l.facts[1].kv_layer = 2; }},
      {"layer 0, selection_sets 3", [](TraceLayout& l) { l.facts[0].selection = {3, 4, 1, 0, 0, 0}; }},
      {"layer 0, selection_ids 0", [](TraceLayout& l) { l.facts[0].selection = {1, 0, 1, 0, 0, 0}; }},
      {"layer 0, index_heads 2", [](TraceLayout& l) { l.facts[0].selection = {0, 0, 1, 2, 0, 8}; }},
      {"layer_kinds: has 1 entries", [](TraceLayout& l) { l.model.layer_kinds = {LayerKind::kAttention}; }},
      {"layer_kinds: says 3 of recorded layer 2",
       [](TraceLayout& l) {
         l.model.layer_kinds.assign(5, LayerKind::kAttention);
         l.model.layer_kinds[2] = LayerKind::kLinear;
       }},
      {"position_axes 4", [](TraceLayout& l) { l.position_axes = 4; }},
      {"max_tokens 0", [](TraceLayout& l) { l.max_tokens = 0; }},
      {"prompt_source", [](TraceLayout& l) { l.prompt_source = std::string(20000, 'x'); }},
      {"name: contains a zero byte", [](TraceLayout& l) { l.model.name = std::string("a\0b", 3); }},
  };
  const ScratchFolder folder;
  for (const BadLayout& bad : cases) {
    TraceLayout layout = SmallLayout(ElementType::kFloat32, 100);
    bad.spoil(layout);
    EXPECT_THAT([&] { TraceWriter(folder.File("t.h5"), layout, false); },
                ThrowsMessage<FailedError>(HasSubstr(bad.field)));
    EXPECT_FALSE(std::ifstream(folder.File("t.h5")).is_open()) << bad.field;
  }
}

TEST(TraceMisuse, BlocksOutOfOrderAreRefusedAndTheTraceGoesOn) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  const TraceLayout layout = SmallLayout(ElementType::kFloat32, 20);
  TraceWriter writer(path, layout, false);
  const std::vector<float> values(4 * 20 * 16);
  const LayerBlock early{
      .num_tokens = 4, .q = values.data(), .k = values.data(), .v = values.data(), .lse = values.data()};
  EXPECT_THAT([&] { writer.Append(early); }, ThrowsMessage<FailedError>(HasSubstr("num_tokens 4")));
  AppendPass(writer, layout, 0, 4, 20);
  EXPECT_THAT([&] { writer.Append(early); }, ThrowsMessage<FailedError>(HasSubstr("first_token 0")));
  const std::vector<int32_t> backwards = {1};
  EXPECT_THAT([&] { writer.AppendRowPositions(backwards); }, ThrowsMessage<FailedError>(HasSubstr("row position 1")));
  EXPECT_THAT([&] { AppendPass(writer, layout, 4, 21, 20); },
              ThrowsMessage<FailedError>(HasSubstr("max_tokens is 20")));
  AppendPass(writer, layout, 4, 20, 20);
  writer.Finish();
  EXPECT_EQ(FirstDifference(TraceReader(path), 20), "");
}

// A name that leads nowhere is a bad input file to whoever typed it, as one that cannot be parsed is (exit code 3).
TEST(TraceMisuse, MissingFileIsABadInput) {
  try {
    TraceReader reader("/nonexistent.h5");
    FAIL();
  } catch (const BadInputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
}

// Independent of the shifting in decode.cpp: the value of every bit pattern from its sign, exponent and fraction.
double FromFields(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto fraction = bits & ((1u << fraction_bits) - 1);
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const double significand = std::ldexp(fraction, -fraction_bits);
  return sign * (exponent == 0 ? std::ldexp(significand, 1 - bias) : std::ldexp(1 + significand, exponent - bias));
}

TEST(DecodeToFloat, EveryBitPatternOfTheSixteenBitFormatsIsExact) {
  std::vector<uint16_t> patterns(65536);
  std::vector<float> decoded(65536);
  for (size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = static_cast<uint16_t>(i);
  }
  for (const auto& [encoding, exponent_bits] : {std::pair{ElementType::kBFloat16, 8}, {ElementType::kFloat16, 5}}) {
    DecodeToFloat(patterns.data(), encoding, 65536, decoded.data());
    for (uint32_t i = 0; i < 65536; ++i) {
      const double expected = FromFields(i, exponent_bits, 15 - exponent_bits);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(decoded[i])) << i;
      } else {
        ASSERT_EQ(static_cast<double>(decoded[i]), expected) << i;
        ASSERT_EQ(std::signbit(decoded[i]), std::signbit(expected)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace headscope::data
