// SPDX-License-Identifier: Apache-2.0
// Files that were made to hurt: each is refused with one sentence, in little memory and time, whatever libhdf5 does
// with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/errors.h"
#include "data/index_file.h"
#include "data/trace_export.h"
#include "data/trace_reader.h"
#include "hdf5_mutator.h"
#include "synthetic_trace.h"
#include "trace/hdf5_handle.h"

namespace headscope::data {
namespace {

using ::testing::HasSubstr;
using testing::Hdf5Structure;
using testing::ScratchFolder;
using ::testing::ThrowsMessage;

// The kilobytes that any process which this one started has had in memory, and that this one had.
[[maybe_unused]] int64_t PeakKiB() {
  rusage own{}, children{};
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  return std::max(own.ru_maxrss, children.ru_maxrss);
}

void ExpectLittleMemory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(PeakKiB(), 160 << 10);
#endif
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// True when the file was refused with one sentence, false when it was read.
bool Refused(const std::string& path) {
  try {
    const TraceReader reader(path);
    return false;
  } catch (const BadInputError& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith(path + ": "));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
    return true;
  }
}

class ChangedMetadata : public ::testing::Test {
 protected:
  // The file with `bytes` in the first structure of that name, and the checksum that fits them.
  std::string With(const std::string& signature, size_t offset, const std::string& bytes) {
    for (const Hdf5Structure& structure : structures_) {
      if (structure.signature != signature) continue;
      std::string changed = original_;
      changed.replace(structure.begin + offset, bytes.size(), bytes);
      testing::RepairChecksum(structure, &changed);
      Write(folder_.File("t.h5"), changed);
      return folder_.File("t.h5");
    }
    ADD_FAILURE() << "the trace has no " << signature;
    return "";
  }

  const ScratchFolder folder_;
  const std::string original_ = testing::TinyTrace();
  const std::vector<Hdf5Structure> structures_ = testing::FindStructures(original_);
};

// libhdf5 1.10 divided by this number without a look at it.
TEST_F(ChangedMetadata, RecordsOfNoBytesInATreeAreRefused) {
  EXPECT_TRUE(Refused(With("BTHD", 10, std::string(2, '\0'))));
}

// It used to take 7 GB for a file of 24 KB.
TEST_F(ChangedMetadata, NodesOfGigabytesInATreeTakeNoMemory) {
  EXPECT_TRUE(Refused(With("BTHD", 6, "\xf0\xff\xff\xff")));
  EXPECT_TRUE(Refused(With("BTHD", 6, std::string("\x00\x00\x00\x20", 4))));
  ExpectLittleMemory();
}

// Every byte of the headers of trees, heaps and arrays, and of the superblock: several of these were crashes.
TEST_F(ChangedMetadata, EveryByteOfTheSmallStructuresMayBeAnything) {
  int refused = 0;
  for (const char* signature : {"superblock", "BTHD", "FRHP", "EAHD"}) {
    for (const Hdf5Structure& structure : structures_) {
      if (structure.signature != signature) continue;
      for (size_t offset = 0; offset < structure.checksum - structure.begin; offset += 1) {
        refused += Refused(With(signature, offset, offset % 2 == 0 ? std::string(1, '\xff') : std::string(1, '\0')));
      }
      break;
    }
  }
  EXPECT_GT(refused, 30);
  ExpectLittleMemory();
}

// A copy of the file with a hole for every page of zeros.
void CopyWithHoles(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(to, std::ios::binary);
  const std::string zeros(4096, '\0');
  std::string page(4096, '\0');
  for (std::streamoff at = 0; in.read(page.data(), 4096) || in.gcount() > 0; at += 4096) {
    if (std::memcmp(page.data(), zeros.data(), static_cast<size_t>(in.gcount())) == 0) continue;
    out.seekp(at);
    out.write(page.data(), in.gcount());
  }
  out.close();
  std::filesystem::resize_file(to, std::filesystem::file_size(from));
}

// One head of zeros: [tokens, 128] fp32.
void WriteZeros(const std::string& path, const TraceLayout& layout) {
  TraceWriter writer(path, layout, false, 1);
  const int64_t tokens = layout.max_tokens;
  const std::vector<TokenRecord> records(static_cast<size_t>(tokens));
  const std::vector<int32_t> rows = {static_cast<int32_t>(tokens - 1)};
  const std::vector<float> zeros(static_cast<size_t>(tokens) * 128);
  writer.AppendTokens(records);
  writer.AppendRowPositions(rows);
  writer.Append({0, 0, tokens, 0, 1, zeros.data(), zeros.data(), zeros.data(), zeros.data()});
  writer.Finish();
}

TraceLayout OneHead(int64_t tokens) {
  TraceLayout layout = testing::SmallLayout(ElementType::kFloat32, tokens);
  layout.row_selection = "last:1";
  layout.layers = {0};
  layout.facts.resize(1);
  layout.facts[0].qo_heads = layout.facts[0].kv_heads = {0};
  testing::SetHeadDim(&layout, 128);
  return layout;
}

// A chunk of zeros has the checksum zero, so a hole is a chunk. 600 MB of them on 16 KB of disk used to take 3.8 GB.
TEST(SparseFiles, DataThatTheDiskDoesNotHoldIsRefused) {
  const ScratchFolder folder;
  WriteZeros(folder.File("whole.h5"), OneHead(40000));
  EXPECT_NO_THROW(TraceReader(folder.File("whole.h5")));
  const std::string sparse = folder.File("sparse.h5");
  CopyWithHoles(folder.File("whole.h5"), sparse);
  struct stat status {};
  ASSERT_EQ(stat(sparse.c_str(), &status), 0);
  if (status.st_blocks * 512 > status.st_size / 16) GTEST_SKIP() << "this file system makes no holes";
  EXPECT_THAT([&] { TraceReader reader(sparse); }, ThrowsMessage<BadInputError>(HasSubstr("of them on the disk")));
}

// The heads of a model that is not trained may hold nothing else; 41 MB of them pack into less than a tenth of 1/16.
TEST(CompressedTraces, HonestZerosAreRead) {
  const ScratchFolder folder;
  WriteZeros(folder.File("whole.h5"), OneHead(40000));
  const TraceReader whole(folder.File("whole.h5"));
  ExportTrace(whole, {}, {.storage = TraceStorage::kCompressed}, folder.File("packed.h5"));
  EXPECT_LT(std::filesystem::file_size(folder.File("packed.h5")) * 16,
            std::filesystem::file_size(folder.File("whole.h5")));
  const TraceReader packed(folder.File("packed.h5"));
  std::vector<float> k(40000 * 128, 1);
  packed.ReadK(0, 0, 0, 40000, k.data());
  EXPECT_EQ(std::ranges::count(k, 0.0f), std::ssize(k));
}

// 200 KB used to ask for the 6 GB of the problem that they speak of.
TEST(IndexOfALargeProblem, IsRefusedBeyondAMultipleOfItsSize) {
  const ScratchFolder folder;
  IndexFile index;
  index.method = "a";
  index.recipe = "headscope-seeded-1";
  index.dtype = ElementType::kFloat32;
  index.num_qo_heads = index.num_kv_heads = 1;
  index.head_dim = 256;
  index.seq_q = index.seq_k = 1 << 20;
  index.tile_rows = 128;
  index.mask_kind = 1;
  index.run_begin.assign(8192, 0);
  index.column_begin = index.run_begin;
  index.run_count.assign(8192, 0);
  index.column_count = index.run_count;
  WriteIndexFile(folder.File("empty.h5"), index);
  EXPECT_THAT([&] { ReadIndexFile(folder.File("empty.h5")); },
              ThrowsMessage<BadInputError>(HasSubstr("16384 times the ")));
  // Rows of one run each are the smallest index of use.
  for (int64_t list = 0; list < 8192; ++list) {
    index.run_begin[static_cast<size_t>(list)] = list;
    index.run_count[static_cast<size_t>(list)] = 1;
    index.runs.insert(index.runs.end(), {0, 1});
  }
  WriteIndexFile(folder.File("runs.h5"), index);
  EXPECT_NO_THROW(ReadIndexFile(folder.File("runs.h5")));
}

// Reading needs neither HDF5 nor its lock, which a writer in the same process holds for as long as the disk takes.
TEST(ParallelReading, GoesOnWhileHdf5IsBusy) {
  const ScratchFolder folder;
  testing::WriteTrace(folder.File("t.h5"), testing::SmallLayout(ElementType::kBFloat16, 300), 300, 100);
  std::string difference = "not read";
  {
    const Hdf5Lock busy;
    std::thread reader([&] { difference = testing::FirstDifference(TraceReader(folder.File("t.h5")), 300); });
    reader.join();  // with a lock in the reader this would never end
  }
  EXPECT_EQ(difference, "");
}

TEST(ParallelReading, ThreadsReadTheSameChunksAtTheSameTime) {
  const ScratchFolder folder;
  testing::WriteTrace(folder.File("t.h5"), testing::SmallLayout(ElementType::kFloat16, 3000), 3000, 500);
  const TraceReader reader(folder.File("t.h5"));
  std::vector<std::string> differences(4, "not read");
  std::vector<std::thread> threads;
  for (std::string& difference : differences) {
    threads.emplace_back([&] { difference = testing::FirstDifference(reader, 3000); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(differences, ::testing::Each(""));
}

// A remedy for a full disk is one for the disk's failures alone (trace_crash_test.cpp has those).
TEST(Hdf5Failure, OfTheLibraryIsNoMatterOfTheDisk) {
  const Hdf5Lock lock;
  EXPECT_THAT(
      [] { Require(H5Gopen2(-1, "x", H5P_DEFAULT), "opening"); },
      ThrowsMessage<FailedError>(::testing::AllOf(HasSubstr("opening failed"), ::testing::Not(HasSubstr("disk")))));
}

}  // namespace
}  // namespace headscope::data
