// SPDX-License-Identifier: Apache-2.0
// Traces in several files: each is a trace of its layers, and any one of them opens the whole. What is missing, of
// another trace or not what its name says is refused in one sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <thread>

#include "base/errors.h"
#include "data/trace_export.h"
#include "data/trace_files_writer.h"
#include "data/trace_identity.h"
#include "hdf5_mutator.h"
#include "spoiled_file.h"
#include "synthetic_trace.h"
#include "trace/trace_tensors.h"

namespace headscope::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::AppendPass;
using testing::DifferingLayout;
using ::testing::ElementsAre;
using testing::FirstDifference;
using ::testing::HasSubstr;
using testing::ReplaceAttribute;
using testing::Scalar;
using testing::ScratchFolder;
using testing::SetInt32;
using testing::SmallLayout;
using testing::WriteTrace;

constexpr int64_t kPromptTokens = 40;  // of WriteSet

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A trace of 40 tokens in `num_files` files named for `path`.
void WriteSet(const std::string& path, const TraceLayout& layout, int32_t num_files) {
  const std::string whole = path + ".whole.h5";
  WriteTrace(whole, layout, 40, 7);
  ExportTrace(TraceReader(whole), {}, {.num_files = num_files}, path);
  fs::remove(whole);
}

// The sentence of the refusal; "" where it opens.
std::string Refusal(const std::string& path) {
  try {
    const TraceReader opened(path);
    return "";
  } catch (const BadInputError& error) {
    return error.what();
  }
}

void Change(const std::string& path, const std::function<void(hid_t)>& change) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0) << path;
  change(file);
  H5Fclose(file);
}

void SetFileSet(hid_t file, const std::string& value) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, value.size());
  H5Tset_cset(type, H5T_CSET_UTF8);
  ReplaceAttribute(file, "/", "file_set", type, Scalar(), value.data());
  H5Tclose(type);
}

TEST(TraceFileNames, SayWhichFileOfHowManyItIs) {
  EXPECT_EQ(TraceFilePath("a/out.h5", 2, 4), "a/out-00002-of-00004.h5");
  EXPECT_EQ(TraceFilePath("out.v1.h5", 12, 64), "out.v1-00012-of-00064.h5");
  EXPECT_EQ(TraceFilePath("a/out.h5", 1, 1), "a/out.h5");
  const auto name = ParseTraceFilePath("a/out.v1-00012-of-00064.h5");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->path, "a/out.v1.h5");
  EXPECT_EQ(name->number, 12);
  EXPECT_EQ(name->count, 64);
  for (const char* other :
       {"out.h5", "-00001-of-00002.h5", "out-0001-of-0002.h5", "out-00000-of-00002.h5", "out-00003-of-00002.h5",
        "out-00001-of-00001.h5", "out-00001-of-00065.h5", "out-00001_of_00002.h5", "out-00001-of-00002-.h5",
        "out-+0001-of-00002.h5", "out-00001-of-99999.h5"})
    EXPECT_FALSE(ParseTraceFilePath(other)) << other;
}

TEST(TraceSet, AnyFileOpensTheWholeTrace) {
  for (const ElementType encoding : {ElementType::kBFloat16, ElementType::kFloat32}) {
    for (const int32_t count : {2, 3}) {
      SCOPED_TRACE(count);
      const ScratchFolder folder;
      const std::string path = folder.File("out.h5");
      WriteSet(path, SmallLayout(encoding, 4000), count);
      EXPECT_FALSE(fs::exists(path));
      std::vector<std::string> files;
      for (int32_t number = 1; number <= count; ++number) files.push_back(TraceFilePath(path, number, count));
      EXPECT_EQ(FilesNamedFor(path), files);
      std::vector<std::string> names = files;
      names.push_back(path);
      for (const std::string& name : names) {
        SCOPED_TRACE(name);
        const TraceReader trace(name);
        EXPECT_EQ(trace.files(), files);
        EXPECT_EQ(trace.path(), files.front());
        EXPECT_TRUE(trace.complete());
        EXPECT_EQ(trace.num_tokens(), 40);
        EXPECT_THAT(trace.layout().layers, ElementsAre(0, 2, 4));
        EXPECT_EQ(trace.layout().place, TraceFilePlace());
        EXPECT_EQ(FirstDifference(trace, kPromptTokens), "");
      }
    }
  }
}

TEST(TraceSet, LayersThatShareKeysOrASelectionStayTogether) {
  const ScratchFolder folder;
  const std::string path = folder.File("out.h5");
  // Layer 4 reads the keys of layer 3, which uses the selection of layer 2.
  WriteSet(path, DifferingLayout(ElementType::kBFloat16, 64), 2);
  const TraceReader whole(path);
  EXPECT_THAT(whole.layout().layers, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(FirstDifference(whole, kPromptTokens), "");
  std::vector<std::vector<int32_t>> layers;
  for (int32_t number = 1; number <= 2; ++number) {
    const std::string alone = folder.File("alone.h5");
    fs::copy_file(TraceFilePath(path, number, 2), alone, fs::copy_options::overwrite_existing);
    layers.push_back(TraceReader(alone).layout().layers);
  }
  EXPECT_THAT(layers, ::testing::UnorderedElementsAre(ElementsAre(1), ElementsAre(2, 3, 4)));
  try {
    DealLayers(DifferingLayout(ElementType::kBFloat16, 64), 3, 0);
    FAIL() << "three files of two groups";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("files"), HasSubstr("3"), HasSubstr("1 to 2")));
  }
}

// A layer whose source of keys is recorded in no file stores them itself, in several files as in one.
TEST(TraceSet, FilesDifferByLessThanALayer) {
  TraceLayout layout = SmallLayout(ElementType::kBFloat16, 100);
  layout.model.num_layers = 16;
  layout.layers.resize(16);
  std::iota(layout.layers.begin(), layout.layers.end(), 0);
  layout.facts.assign(16, layout.facts.front());
  const std::vector<std::vector<int32_t>> equal = DealLayers(layout, 4, 0);
  EXPECT_THAT(equal, ElementsAre(ElementsAre(0, 4, 8, 12), ElementsAre(1, 5, 9, 13), ElementsAre(2, 6, 10, 14),
                                 ElementsAre(3, 7, 11, 15)))
      << "neighbours must be in different files";
  for (size_t slot = 0; slot < 16; ++slot)
    layout.facts[slot].head_dim = layout.facts[slot].v_head_dim = 8 + 8 * static_cast<int32_t>(slot);
  std::vector<int64_t> bytes;
  for (const std::vector<int32_t>& file : DealLayers(layout, 4, 0)) {
    bytes.push_back(0);
    for (const int32_t slot : file) bytes.back() += layout.facts[static_cast<size_t>(slot)].head_dim;
  }
  EXPECT_LT(*std::ranges::max_element(bytes) - *std::ranges::min_element(bytes), 8 + 8 * 15);
}

TEST(TraceSet, ByANameOfItsOwnAFileIsATraceOfItsLayers) {
  const ScratchFolder folder;
  const std::string path = folder.File("out.h5");
  WriteSet(path, SmallLayout(ElementType::kBFloat16, 4000), 3);
  std::vector<int32_t> layers;
  for (int32_t number = 1; number <= 3; ++number) {
    const std::string alone = folder.File("alone.h5");
    fs::copy_file(TraceFilePath(path, number, 3), alone, fs::copy_options::overwrite_existing);
    const TraceReader trace(alone);
    EXPECT_THAT(trace.files(), ElementsAre(alone));
    EXPECT_EQ(FirstDifference(trace, kPromptTokens), "");
    layers.insert(layers.end(), trace.layout().layers.begin(), trace.layout().layers.end());
    // What is exported of it is no file of that set.
    ExportTrace(trace, {}, {}, folder.File("again-00001-of-00003.h5"));
    EXPECT_EQ(Refusal(folder.File("again-00001-of-00003.h5")), "");
    fs::remove(folder.File("again-00001-of-00003.h5"));
  }
  std::ranges::sort(layers);
  EXPECT_THAT(layers, ElementsAre(0, 2, 4));
}

TEST(TraceSet, ExportJoinsAndSplits) {
  const ScratchFolder folder;
  for (const TraceLayout& layout :
       {SmallLayout(ElementType::kBFloat16, 4000), DifferingLayout(ElementType::kFloat32, 64)}) {
    WriteTrace(folder.File("whole.h5"), layout, 40, 7);
    const TraceReader whole(folder.File("whole.h5"));
    ExportTrace(whole, {}, {.num_files = 2}, folder.File("split.h5"));
    ExportTrace(whole, {}, {}, folder.File("direct.h5"));
    ExportTrace(TraceReader(folder.File("split.h5")), {}, {}, folder.File("joined.h5"));
    EXPECT_EQ(BytesOf(folder.File("joined.h5")), BytesOf(folder.File("direct.h5")));
    ExportTrace(TraceReader(folder.File("split.h5")), {.layers = {layout.layers.back()}}, {}, folder.File("part.h5"));
    EXPECT_EQ(FirstDifference(TraceReader(folder.File("part.h5")), kPromptTokens), "");
    ExportTrace(whole, {}, {.storage = TraceStorage::kCompressed, .num_files = 2}, folder.File("packed.h5"));
    EXPECT_EQ(FirstDifference(TraceReader(folder.File("packed.h5")), kPromptTokens), "");
    for (const auto& entry : fs::directory_iterator(folder.path())) fs::remove(entry);
  }
}

TEST(TraceSet, WhereAFileStandsInTheWayNoneStays) {
  const ScratchFolder folder;
  WriteTrace(folder.File("whole.h5"), SmallLayout(ElementType::kBFloat16, 64), 40, 7);
  WriteBytes(folder.File("out-00002-of-00003.h5"), "somebody's");
  EXPECT_THROW(ExportTrace(TraceReader(folder.File("whole.h5")), {}, {.num_files = 3}, folder.File("out.h5")),
               FailedError);
  EXPECT_THAT(FilesNamedFor(folder.File("out.h5")), ElementsAre(folder.File("out-00002-of-00003.h5")));
  EXPECT_EQ(BytesOf(folder.File("out-00002-of-00003.h5")), "somebody's");
}

class SpoiledSet : public ::testing::Test {
 protected:
  SpoiledSet() { WriteSet(path_, SmallLayout(ElementType::kBFloat16, 64), 3); }
  std::string File(int32_t number) const { return TraceFilePath(path_, number, 3); }
  ScratchFolder folder_;
  std::string path_ = folder_.File("out.h5");
};

TEST_F(SpoiledSet, AMissingFileIsNamed) {
  fs::rename(File(2), folder_.File("elsewhere.h5"));
  for (const std::string& opened : {File(1), File(3), path_}) {
    EXPECT_THAT(Refusal(opened), AllOf(HasSubstr("out-00002-of-00003.h5: is missing"), HasSubstr("3 files of a trace"),
                                       HasSubstr("one folder")));
  }
  EXPECT_EQ(Refusal(folder_.File("elsewhere.h5")), "") << "it is an ordinary trace by that name";
  fs::rename(folder_.File("elsewhere.h5"), File(2));
  EXPECT_EQ(Refusal(path_), "");
}

TEST_F(SpoiledSet, AFileOfAnotherTraceIsNamed) {
  WriteSet(folder_.File("other.h5"), SmallLayout(ElementType::kBFloat16, 64), 3);
  fs::copy_file(folder_.File("other-00002-of-00003.h5"), File(2), fs::copy_options::overwrite_existing);
  EXPECT_THAT(Refusal(path_), AllOf(HasSubstr("out-00002-of-00003.h5"), HasSubstr("not of the same trace as out-00001"),
                                    HasSubstr("bring back")));
  // An ordinary trace has no place among them.
  WriteTrace(folder_.File("plain.h5"), SmallLayout(ElementType::kBFloat16, 64), 40, 7);
  fs::copy_file(folder_.File("plain.h5"), File(2), fs::copy_options::overwrite_existing);
  EXPECT_THAT(Refusal(File(1)), HasSubstr("out-00002-of-00003.h5: is not of the same trace"));
  WriteBytes(File(2), "no trace at all");
  EXPECT_THAT(Refusal(File(3)), HasSubstr("out-00002-of-00003.h5"));
}

TEST_F(SpoiledSet, SwappedNamesAreRefused) {
  fs::rename(File(1), folder_.File("aside"));
  fs::rename(File(2), File(1));
  fs::rename(folder_.File("aside"), File(2));
  for (const std::string& opened : {File(1), File(2), File(3), path_})
    EXPECT_THAT(Refusal(opened), AllOf(HasSubstr("of 3 of its trace, which its name does not say")));
  // Another number of files in the name.
  const ScratchFolder other;
  WriteSet(other.File("out.h5"), SmallLayout(ElementType::kBFloat16, 64), 2);
  fs::rename(other.File("out-00001-of-00002.h5"), other.File("out-00001-of-00003.h5"));
  EXPECT_THAT(Refusal(other.File("out-00001-of-00003.h5")), HasSubstr("is file 1 of 2 of its trace"));
}

TEST_F(SpoiledSet, TheSharedNameOfTwoTracesIsRefused) {
  WriteSet(path_, SmallLayout(ElementType::kBFloat16, 64), 2);
  EXPECT_THAT(Refusal(path_), AllOf(HasSubstr("out-00001-of-00002.h5"), HasSubstr("out-00001-of-00003.h5"),
                                    HasSubstr("name a file of the one that is meant")));
  EXPECT_EQ(TraceReader(folder_.File("out-00002-of-00002.h5")).files().size(), 2u);
  EXPECT_EQ(TraceReader(File(2)).files().size(), 3u);
  // A file of just that name is meant before them.
  WriteTrace(path_, SmallLayout(ElementType::kFloat32, 64), 12, 7);
  EXPECT_EQ(TraceReader(path_).num_tokens(), 12);
}

TEST_F(SpoiledSet, HostilePlacesAreRefusedByName) {
  const std::string good(32, 'a');
  const struct {
    std::function<void(hid_t)> change;
    const char* named;
  } cases[] = {
      {[](hid_t file) { SetInt32(file, "/", "file_count", 0); }, "file_count"},
      {[](hid_t file) { SetInt32(file, "/", "file_count", 1); }, "file_count"},
      {[](hid_t file) { SetInt32(file, "/", "file_count", 65); }, "file_count"},
      {[](hid_t file) { SetInt32(file, "/", "file_count", -3); }, "file_count"},
      {[](hid_t file) { SetInt32(file, "/", "file_count", INT32_MAX); }, "file_count"},
      {[](hid_t file) { SetInt32(file, "/", "file_number", 0); }, "file_number"},
      {[](hid_t file) { SetInt32(file, "/", "file_number", 4); }, "file_number"},
      {[](hid_t file) { SetInt32(file, "/", "file_number", 3); }, "is file 3 of 3"},
      {[](hid_t file) { SetInt32(file, "/", "file_count", 2); }, "is file 2 of 2"},
      {[](hid_t file) { SetFileSet(file, "../../../../etc/passwd"); }, "file_set"},
      {[](hid_t file) { SetFileSet(file, std::string(32, 'A')); }, "file_set"},
      {[](hid_t file) { SetFileSet(file, std::string(33, 'a')); }, "file_set"},
      {[&](hid_t file) { SetFileSet(file, good); }, "not of the same trace"},
      {[](hid_t file) { H5Adelete(file, "file_set"); }, "file_set"},
      {[](hid_t file) { H5Adelete(file, "file_number"); }, "file_number"},
      {[](hid_t file) { H5Adelete(file, "file_count"); }, "file_count"},
      {[](hid_t file) {
         const int64_t three = 3;
         ReplaceAttribute(file, "/", "file_count", H5T_STD_I64LE, Scalar(), &three);
       },
       "file_count"},
      {[](hid_t file) {
         const char name[] = "another model";
         const hid_t type = H5Tcopy(H5T_C_S1);
         H5Tset_size(type, sizeof name);
         H5Tset_cset(type, H5T_CSET_UTF8);
         ReplaceAttribute(file, "model", "name", type, Scalar(), name);
         H5Tclose(type);
       },
       "facts of the model"},
      {[](hid_t file) {
         const int64_t tokens = 90;
         ReplaceAttribute(file, "attention", "max_tokens", H5T_STD_I64LE, Scalar(), &tokens);
       },
       "facts of the recording"},
  };
  const std::string kept = BytesOf(File(2));
  for (const auto& [change, named] : cases) {
    WriteBytes(File(2), kept);
    ASSERT_EQ(Refusal(path_), "");
    Change(File(2), change);
    for (const std::string& opened : {File(1), File(2)}) {
      EXPECT_THAT(Refusal(opened), AllOf(HasSubstr(named), HasSubstr("of-00003.h5"))) << opened;
    }
  }
}

TEST_F(SpoiledSet, AFileThatComesTwiceIsRefused) {
  fs::copy_file(File(1), File(2), fs::copy_options::overwrite_existing);
  Change(File(2), [](hid_t file) { SetInt32(file, "/", "file_number", 2); });
  EXPECT_THAT(Refusal(path_), HasSubstr("out-00001-of-00003.h5 holds as well"));
}

// Layer 4 is to read the keys of layer 2, which another file has: each file is a trace, all of them are none.
TEST_F(SpoiledSet, LayersThatShareKeysAreInOneFile) {
  const hsize_t one = 1;
  const hid_t list = H5Screate_simple(1, &one, nullptr);
  for (const char* shared : {"kv_layer", "selection_layer"}) {
    const std::string kept = BytesOf(File(3));
    Change(File(3), [&](hid_t file) {
      const int32_t two = 2;
      ReplaceAttribute(file, "layers", shared, H5T_STD_I32LE, list, &two);
    });
    fs::copy_file(File(3), folder_.File("alone.h5"), fs::copy_options::overwrite_existing);
    EXPECT_EQ(Refusal(folder_.File("alone.h5")), "") << shared;
    EXPECT_THAT(Refusal(path_), AllOf(HasSubstr("out-00003-of-00003.h5: holds layer 4, which shares what layer 2 in "
                                                "out-00002-of-00003.h5 stores"),
                                      HasSubstr("bring back")))
        << shared;
    WriteBytes(File(3), kept);
  }
  H5Sclose(list);
}

TEST_F(SpoiledSet, WhatATraceWasBeforeIsNamedWhereFilesOfBothAreUnderOneName) {
  for (int32_t number = 1; number <= 3; ++number)
    fs::copy_file(File(number), TraceFilePath(folder_.File("out.replaced.h5"), number, 3));
  WriteSet(folder_.File("other.h5"), SmallLayout(ElementType::kBFloat16, 64), 3);
  fs::rename(folder_.File("other-00001-of-00003.h5"), File(1));
  EXPECT_THAT(Refusal(path_), HasSubstr("the trace that had this name before is out.replaced.h5"));
  fs::remove(File(3));
  EXPECT_THAT(Refusal(path_), AllOf(HasSubstr("is missing"), HasSubstr("before is out.replaced.h5")));
  EXPECT_EQ(TraceReader(folder_.File("out.replaced.h5")).files().size(), 3u);
}

// By what stands in the files: their names may be anything.
TEST(TraceIdentity, IsThatOfTheFilesAndTheirCopies) {
  const ScratchFolder folder;
  const std::string path = folder.File("out.h5"), other = folder.File("other.h5");
  WriteSet(path, SmallLayout(ElementType::kBFloat16, 64), 3);
  WriteSet(other, SmallLayout(ElementType::kBFloat16, 64), 3);
  const TraceReader trace(path);
  const auto leads_to = [](const std::string& name, const TraceReader& to) {
    return LeadsTo(name, FileSetAt(name), to);
  };
  fs::copy_file(TraceFilePath(path, 2, 3), folder.File("copy.h5"));
  fs::create_symlink(TraceFilePath(path, 3, 3), folder.File("link.h5"));
  for (const std::string& name :
       {path, TraceFilePath(path, 1, 3), TraceFilePath(path, 3, 3), folder.File("copy.h5"), folder.File("link.h5")})
    EXPECT_TRUE(leads_to(name, trace)) << name;
  WriteBytes(folder.File("no-trace.h5"), "nothing");
  for (const std::string& name :
       {other, TraceFilePath(other, 2, 3), folder.File("no-trace.h5"), folder.File("none.h5")})
    EXPECT_FALSE(leads_to(name, trace)) << name;
  // A name as of one of its files, over another trace.
  fs::copy_file(TraceFilePath(other, 2, 3), TraceFilePath(path, 2, 3), fs::copy_options::overwrite_existing);
  WriteTrace(folder.File("whole.h5"), SmallLayout(ElementType::kBFloat16, 64), 40, 7);
  const TraceReader whole(folder.File("whole.h5"));
  fs::create_hard_link(folder.File("whole.h5"), folder.File("again.h5"));
  EXPECT_TRUE(leads_to(folder.File("again.h5"), whole));
  EXPECT_FALSE(leads_to(path, whole));
}

// Each head of each layer has a chunk that is open, and all of them fit, however the layers are dealt out.
TEST(TraceFilesWriterMemory, IsSharedByHeads) {
  TraceLayout layout = SmallLayout(ElementType::kBFloat16, 8192);
  layout.model.num_layers = 36;
  layout.model.num_qo_heads = 32;
  layout.model.num_kv_heads = 8;
  layout.model.head_dim = 128;
  layout.facts.assign(36, UsualFacts(layout.model));
  layout.layers.resize(36);
  std::iota(layout.layers.begin(), layout.layers.end(), 0);
  constexpr int64_t kVectors = 32 + 8 + 8, kVectorChunk = 1024 * 128 * 2;
  constexpr int64_t kOfLayer = kVectors * kVectorChunk + 32 * 8192 * 4 + 8192 * 8;  // and lse, and lse_keys
  for (const int32_t files : {1, 2, 10, 11, 15, 16, 17, 18, 35, 36})
    EXPECT_EQ(OpenChunkBytesOfFiles(layout, 8192, files), 36 * kOfLayer) << files;
}

TEST(TraceFilesToOpen, AreThoseOfTheNames) {
  const ScratchFolder folder;
  const std::string path = folder.File("out.h5");
  const std::vector<std::string> files = TraceFilePaths(path, 3);
  EXPECT_THAT(FilesToOpen(path), ElementsAre(path)) << "nothing is there";
  for (const std::string& file : files) WriteBytes(file, "");
  EXPECT_EQ(FilesToOpen(path), files);
  EXPECT_EQ(FilesToOpen(files[1]), files);
  WriteBytes(path, "");
  EXPECT_THAT(FilesToOpen(path), ElementsAre(path));
}

TEST_F(SpoiledSet, FilesThatAreCompleteHoldTheSameTokens) {
  const TraceReader whole(path_);
  ExportTrace(whole, {.layers = {2}, .end_token = 39}, {}, folder_.File("short.h5"));
  // Into the place of the file that has that layer.
  const hid_t from = H5Fopen(File(2).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  char set[32];
  const hid_t attribute = H5Aopen(from, "file_set", H5P_DEFAULT), type = H5Aget_type(attribute);
  ASSERT_GE(H5Aread(attribute, type, set), 0);
  H5Tclose(type);
  H5Aclose(attribute);
  H5Fclose(from);
  Change(folder_.File("short.h5"), [&](hid_t file) {
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, sizeof set);
    H5Tset_cset(text, H5T_CSET_UTF8);
    for (const char* name : {"file_number", "file_count"}) {
      const int32_t value = std::string(name) == "file_number" ? 2 : 3;
      const hid_t made = H5Acreate2(file, name, H5T_STD_I32LE, Scalar(), H5P_DEFAULT, H5P_DEFAULT);
      ASSERT_GE(H5Awrite(made, H5T_STD_I32LE, &value), 0);
      H5Aclose(made);
    }
    const hid_t made = H5Acreate2(file, "file_set", text, Scalar(), H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Awrite(made, text, set), 0);
    H5Aclose(made);
    H5Tclose(text);
  });
  fs::rename(folder_.File("short.h5"), File(2));
  EXPECT_THAT(Refusal(path_), AllOf(HasSubstr("complete with 39 tokens"), HasSubstr("with 40")));
}

TEST(TraceSetOfALivingWriter, HoldsTheLeastOfItsFiles) {
  const ScratchFolder folder;
  const std::string path = folder.File("out.h5");
  const TraceLayout layout = SmallLayout(ElementType::kBFloat16, 64);
  TraceFilesWriter writer(path, layout, 3, /*overwrite=*/false);
  const std::vector<TraceLayout> layouts = LayoutsOfFiles(layout, DealLayers(layout, 3, 0));
  EXPECT_EQ(TraceReader(path).num_tokens(), 0);
  const auto append = [&](int32_t file, int64_t begin, int64_t end) {
    AppendPass(writer.file(file), layouts[static_cast<size_t>(file)], begin, end, kPromptTokens);
    writer.file(file).Flush();
  };
  append(0, 0, 16);
  append(1, 0, 16);
  EXPECT_EQ(TraceReader(path).num_tokens(), 0) << "the third file has none";
  append(2, 0, 10);
  append(1, 16, 30);
  const TraceReader early(path);
  EXPECT_EQ(early.num_tokens(), 10);
  EXPECT_EQ(std::ssize(early.tokens()), 10);
  EXPECT_FALSE(early.complete());
  EXPECT_EQ(FirstDifference(early, kPromptTokens), "");
  std::vector<char> out(64 * 16 * 4);
  EXPECT_THROW(early.ReadK(1, 0, 0, 11, out.data()), std::out_of_range) << "its file has 30, the trace 10";
  EXPECT_THROW(early.ReadQ(3, 0, 0, 1, out.data()), std::out_of_range);
  append(0, 16, 30);
  append(2, 10, 30);
  writer.file(1).Finish();
  const TraceReader nearly(path);
  EXPECT_EQ(nearly.num_tokens(), 30);
  EXPECT_FALSE(nearly.complete()) << "only one of its files is";
  writer.file(0).Finish();
  writer.file(2).Finish();
  const TraceReader done(path);
  EXPECT_TRUE(done.complete());
  EXPECT_EQ(FirstDifference(done, kPromptTokens), "");
}

TEST(TraceSetOfALivingWriter, FilesAreWrittenByAThreadEach) {
  const ScratchFolder folder;
  const std::string path = folder.File("out.h5");
  const TraceLayout layout = SmallLayout(ElementType::kFloat32, 6000);
  TraceFilesWriter writer(path, layout, 3, /*overwrite=*/false);
  const std::vector<TraceLayout> layouts = LayoutsOfFiles(layout, DealLayers(layout, 3, 0));
  std::vector<std::jthread> threads;
  for (int32_t file = 0; file < 3; ++file) {
    threads.emplace_back([&, file] {
      for (int64_t begin = 0; begin < 5000; begin += 250) {
        AppendPass(writer.file(file), layouts[static_cast<size_t>(file)], begin, begin + 250, kPromptTokens);
        if (begin % 1000 == 0) writer.file(file).Flush();
      }
    });
  }
  threads.clear();
  writer.Finish();
  const TraceReader trace(path);
  EXPECT_TRUE(trace.complete());
  EXPECT_EQ(trace.num_tokens(), 5000);
  EXPECT_EQ(FirstDifference(trace, kPromptTokens), "");
}

// One file of a set is changed, inside the structures that HDF5 parses too: the whole reads, or is refused.
TEST(TraceSetFuzz, AChangedFileIsReadOrRefused) {
  const ScratchFolder folder;
  const std::string path = folder.File("out.h5");
  WriteSet(path, DifferingLayout(ElementType::kBFloat16, 40), 2);
  const std::string changed = TraceFilePath(path, 2, 2), original = BytesOf(changed);
  const std::vector<testing::Hdf5Structure> structures = testing::FindStructures(original);
  ASSERT_FALSE(structures.empty());
  int opened = 0;
  constexpr int kFiles = 300;
  for (int number = 0; number < kFiles; ++number) {
    std::mt19937 random(static_cast<unsigned>(number));
    std::string bytes = original;
    if (number % 4 == 0) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    } else {
      testing::MutateStructures(structures, random, &bytes);
    }
    WriteBytes(changed, bytes);
    try {
      const TraceReader trace(TraceFilePath(path, 1, 2));
      ++opened;
      for (int32_t slot = 0; slot < std::ssize(trace.layout().layers); ++slot) {
        const LayerFacts& facts = trace.layer(slot);
        std::vector<char> out(static_cast<size_t>(trace.num_tokens() * std::max(facts.head_dim, facts.v_head_dim)) * 4);
        trace.ReadQ(slot, 0, 0, trace.num_rows(), out.data());
        trace.ReadV(slot, 0, 0, trace.num_tokens(), out.data());
      }
    } catch (const BadInputError&) {
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, kFiles);
}

}  // namespace
}  // namespace headscope::data
