// SPDX-License-Identifier: Apache-2.0
// Index files: what is written comes back, and files that somebody else made are refused by name before their numbers
// take any memory.
#include "data/index_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>

#include "base/errors.h"
#include "data/trace_schema.h"
#include "spoiled_file.h"
#include "synthetic_trace.h"

namespace headscope::data {
namespace {

using ::testing::AllOf;
using testing::Chunked;
using ::testing::HasSubstr;
using testing::Replace;
using testing::ReplaceAttribute;
using testing::Scalar;
using testing::ScratchFolder;
using testing::SetInt32;
using testing::SetInt64;
using testing::Simple;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

IndexFile TwoTiles() {
  IndexFile index;
  index.method = "blocks-90";
  index.recipe = "headscope-seeded-1";
  index.dtype = ElementType::kBFloat16;
  index.seed = -7;
  index.num_qo_heads = 2;
  index.num_kv_heads = 1;
  index.head_dim = 64;
  index.seq_q = index.seq_k = 256;
  index.tile_rows = 128;
  index.mask_kind = 2;
  index.window = 100;
  index.num_sinks = 4;
  index.run_begin = {0, 1, 0, 1};
  index.run_count = {1, 1, 1, 1};
  index.column_begin = {0, 1, 0, 1};
  index.column_count = {1, 1, 1, 1};
  index.runs = {0, 128, 64, 1 << 28 | 128};
  index.columns = {3, 5};
  return index;
}

TEST(IndexFile, ComesBackAsItWas) {
  const ScratchFolder folder;
  const IndexFile written = TwoTiles();
  WriteIndexFile(folder.File("index.h5"), written);
  const IndexFile read = ReadIndexFile(folder.File("index.h5"));
  EXPECT_EQ(read.method, written.method);
  EXPECT_EQ(read.recipe, written.recipe);
  EXPECT_EQ(read.dtype, written.dtype);
  EXPECT_EQ(read.seed, written.seed);
  EXPECT_EQ(read.batch, written.batch);
  EXPECT_EQ(read.num_qo_heads, written.num_qo_heads);
  EXPECT_EQ(read.num_kv_heads, written.num_kv_heads);
  EXPECT_EQ(read.head_dim, written.head_dim);
  EXPECT_EQ(read.seq_q, written.seq_q);
  EXPECT_EQ(read.seq_k, written.seq_k);
  EXPECT_EQ(read.first_position, written.first_position);
  EXPECT_EQ(read.tile_rows, written.tile_rows);
  EXPECT_EQ(read.mask_kind, written.mask_kind);
  EXPECT_EQ(read.window, written.window);
  EXPECT_EQ(read.num_sinks, written.num_sinks);
  EXPECT_EQ(read.run_begin, written.run_begin);
  EXPECT_EQ(read.run_count, written.run_count);
  EXPECT_EQ(read.column_begin, written.column_begin);
  EXPECT_EQ(read.column_count, written.column_count);
  EXPECT_EQ(read.runs, written.runs);
  EXPECT_EQ(read.columns, written.columns);
}

TEST(IndexFile, OfATraceComesBackWithItsHeads) {
  const ScratchFolder folder;
  IndexFile written = TwoTiles();
  written.heads = {3, 5, 2, 0};
  WriteIndexFile(folder.File("index.h5"), written);
  const IndexFile read = ReadIndexFile(folder.File("index.h5"));
  EXPECT_EQ(read.heads, written.heads);
  EXPECT_EQ(read.runs, written.runs);
}

TEST(IndexFile, WithoutRunsAndColumnsComesBackToo) {
  const ScratchFolder folder;
  IndexFile empty = TwoTiles();
  empty.run_begin = empty.column_begin = {0, 0, 0, 0};
  empty.run_count = empty.column_count = {0, 0, 0, 0};
  empty.runs.clear();
  empty.columns.clear();
  WriteIndexFile(folder.File("index.h5"), empty);
  const IndexFile read = ReadIndexFile(folder.File("index.h5"));
  EXPECT_EQ(read.run_begin, empty.run_begin);
  EXPECT_TRUE(read.runs.empty());
  EXPECT_TRUE(read.columns.empty());
}

struct BadIndex {
  const char* name;
  const char* field;
  const char* problem;
  std::function<void(hid_t)> spoil;
};

void PrintTo(const BadIndex& bad, std::ostream* out) {
  *out << bad.name;
}

class BadIndices : public ::testing::TestWithParam<BadIndex> {};

TEST_P(BadIndices, AreRefusedWithOneSentence) {
  const ScratchFolder folder;
  const std::string path = folder.File("bad.h5");
  WriteIndexFile(path, TwoTiles());
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  GetParam().spoil(file);
  H5Fclose(file);
  EXPECT_THAT([&] { ReadIndexFile(path); },
              ThrowsMessage<BadInputError>(AllOf(StartsWith(path + ": " + GetParam().field + ": "),
                                                 HasSubstr(GetParam().problem), HasSubstr("index"))));
}

// Nothing of it is stored, and each would take 3 GiB of memory.
constexpr hsize_t kHuge = hsize_t{3} << 28;

const BadIndex kBadIndices[] = {
    {"OtherVersion", "attribute version", "is 3", [](hid_t f) { SetInt32(f, "/", "version", 3); }},
    {"NoTracesHeads", "/heads", "is missing", [](hid_t f) { SetInt32(f, "/", "version", 2); }},
    {"OtherTracesHeads", "/heads", "has 3 heads, num_qo_heads is 2",
     [](hid_t f) {
       SetInt32(f, "/", "version", 2);
       Replace(f, "heads", H5T_STD_I32LE, Simple({3, 2}));
     }},
    {"OtherType", "attribute dtype", "is \"fp8\", allowed are fp32, bf16 and fp16",
     [](hid_t f) {
       const hid_t text = H5Tcopy(H5T_C_S1);
       H5Tset_size(text, 3);
       ReplaceAttribute(f, "/", "dtype", text, Scalar(), "fp8");
       H5Tclose(text);
     }},
    {"WideShape", "attribute seq_q", "an integer type", [](hid_t f) { SetInt64(f, "seq_q", 256); }},
    {"NoHeads", "attribute num_qo_heads", "is missing", [](hid_t f) { H5Adelete(f, "num_qo_heads"); }},
    {"NoColumns", "/columns", "is missing", [](hid_t f) { H5Ldelete(f, "columns", H5P_DEFAULT); }},
    {"NarrowOffsets", "/run_begin", "an integer type",
     [](hid_t f) { Replace(f, "run_begin", H5T_STD_I32LE, Simple({4})); }},
    {"ListsOfDifferentLength", "/run_begin", "differ in length",
     [](hid_t f) { Replace(f, "column_count", H5T_STD_I32LE, Simple({3})); }},
    {"RunsOfThree", "/runs", "rows of 3 numbers",
     [](hid_t f) {
       Replace(f, "runs", H5T_STD_I32LE, Simple({2, 3}));
     }},
    {"FlatRuns", "/runs", "1 dimensions instead of 2", [](hid_t f) { Replace(f, "runs", H5T_STD_I32LE, Simple({4})); }},
    {"HugeOffsets", "/run_begin", "declares 402653184 entries in a file of",
     [](hid_t f) { Replace(f, "run_begin", H5T_STD_I64LE, Simple({kHuge / 2}), Chunked({4096})); }},
    {"HugeCounts", "/column_count", "declares 805306368 entries in a file of",
     [](hid_t f) { Replace(f, "column_count", H5T_STD_I32LE, Simple({kHuge}), Chunked({4096})); }},
    {"HugeRuns", "/runs", "declares 402653184 entries in a file of",
     [](hid_t f) {
       Replace(f, "runs", H5T_STD_I32LE, Simple({kHuge / 2, 2}), Chunked({4096, 2}));
     }},
    {"HugeColumns", "/columns", "declares 805306368 entries in a file of",
     [](hid_t f) { Replace(f, "columns", H5T_STD_I32LE, Simple({kHuge}), Chunked({4096})); }},
};

INSTANTIATE_TEST_SUITE_P(All, BadIndices, ::testing::ValuesIn(kBadIndices),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace headscope::data
