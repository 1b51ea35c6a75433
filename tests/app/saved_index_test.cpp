// SPDX-License-Identifier: Apache-2.0
// Indices of traces as they are written for other programs, and read again.
#include "choices/saved_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "data/mask_file.h"
#include "data/untrusted_text.h"

namespace headscope::app {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class SavedIndexTest : public ::testing::Test {
 protected:
  ~SavedIndexTest() override {
    for (const std::string& path : {json_, hdf5_}) std::filesystem::remove(path);
  }

  // One tile of one head with `columns` as single keys.
  static data::IndexFile Index(std::vector<int32_t> columns) {
    data::IndexFile index;
    index.method = "given";
    index.recipe = "trace";
    index.num_qo_heads = index.num_kv_heads = 1;
    index.head_dim = 8;
    index.seq_q = index.seq_k = 100;
    index.tile_rows = 128;
    index.mask_kind = 1;
    index.run_begin = index.column_begin = {0};
    index.run_count = {1};
    index.runs = {0, 1 << 28 | 7};
    index.column_count = {static_cast<int32_t>(columns.size())};
    index.columns = std::move(columns);
    index.heads = {3, 5};
    return index;
  }

  const std::string json_ = ::testing::TempDir() + "saved_index_test_" + std::to_string(getpid()) + ".json";
  const std::string hdf5_ = ::testing::TempDir() + "saved_index_test_" + std::to_string(getpid()) + ".h5";
};

TEST_F(SavedIndexTest, JsonHasWhatHdf5Has) {
  const data::IndexFile written = Index({9, 50, 99});
  WriteIndex(written, json_, /*force=*/false);
  WriteIndex(written, hdf5_, /*force=*/false);
  const auto as_json = std::get<data::IndexFile>(data::ReadMaskJson(json_));
  const data::IndexFile as_hdf5 = data::ReadIndexFile(hdf5_);
  for (const data::IndexFile* const read : {&as_json, &as_hdf5}) {
    EXPECT_EQ(read->method, written.method);
    EXPECT_EQ(read->heads, written.heads);
    EXPECT_EQ(read->runs, written.runs);
    EXPECT_EQ(read->columns, written.columns);
    EXPECT_EQ(read->run_begin, written.run_begin);
    EXPECT_EQ(read->column_count, written.column_count);
    EXPECT_EQ(read->seq_k, written.seq_k);
  }
}

TEST_F(SavedIndexTest, JsonThatCouldNotBeReadAgainIsNotWritten) {
  const auto refused = ThrowsMessage<FailedError>(HasSubstr("more than 64 MiB as JSON"));
  // More numbers than find room at two bytes each, and fewer whose digits do not.
  for (const data::IndexFile& index : {Index(std::vector<int32_t>(data::kMostTextBytes / 2 + 1, 1)),
                                       Index(std::vector<int32_t>(data::kMostTextBytes / 10, 1000000000))}) {
    EXPECT_THAT([&] { WriteIndex(index, json_, /*force=*/true); }, refused);
    EXPECT_FALSE(std::filesystem::exists(json_));
  }
}

}  // namespace
}  // namespace headscope::app
