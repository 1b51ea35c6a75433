// SPDX-License-Identifier: Apache-2.0
// When chunks of a trace are written: after HDF5 has said where, without its lock, and before anything names them.
#include "trace/chunk_driver.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "synthetic_trace.h"
#include "trace/fletcher32.h"

namespace headscope::data {
namespace {

enum class Driver { kOfChunks, kOfHdf5 };

PropertyHandle AccessBy(Driver driver) {
  PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS));
  if (driver == Driver::kOfChunks) UseChunkDriver(access.get());
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  return access;
}

// One dataset of bytes, in chunks with a checksum.
class FileOfChunks {
 public:
  static constexpr hsize_t kBytes = 4096;

  explicit FileOfChunks(const std::string& path, Driver driver = Driver::kOfChunks, hsize_t bytes = kBytes)
      : path_(path), bytes_(bytes) {
    const Hdf5Lock lock;
    const PropertyHandle access = AccessBy(driver);
    file_ = FileHandle(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()));
    const hsize_t extent = 8 * bytes_, limit = H5S_UNLIMITED;
    const SpaceHandle space(H5Screate_simple(1, &extent, &limit));
    const PropertyHandle creation(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(creation.get(), 1, &bytes_);
    H5Pset_fletcher32(creation.get());
    H5Pset_obj_track_times(creation.get(), false);
    const PropertyHandle uncached(H5Pcreate(H5P_DATASET_ACCESS));
    H5Pset_chunk_cache(uncached.get(), 0, 0, 0);
    dataset_ = DatasetHandle(
        H5Dcreate2(file_.get(), "d", H5T_STD_U8LE, space.get(), H5P_DEFAULT, creation.get(), uncached.get()));
  }

  herr_t HandOver(hsize_t number, const void* values, size_t size) const {
    const hsize_t offset = number * bytes_;
    return H5Dwrite_chunk(dataset_.get(), H5P_DEFAULT, 0, &offset, size, values);
  }
  void Find(StoredChunk* chunk, hsize_t number) const {
    const Hdf5Lock lock;
    chunk->FindPlace([&](const void* values, size_t size) { return HandOver(number, values, size); }, "writing");
  }
  herr_t Flush() const { return H5Fflush(file_.get(), H5F_SCOPE_LOCAL); }

  // On the disk, whatever HDF5 keeps.
  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool Holds(const std::string& bytes) const { return Bytes().find(bytes) != std::string::npos; }
  // By HDF5 alone, which sums up the chunk itself.
  void Write(hsize_t number, const std::string& bytes) const {
    const Hdf5Lock lock;
    const SpaceHandle in_file = PlaceOf(number), in_memory(H5Screate_simple(1, &bytes_, nullptr));
    ASSERT_GE(H5Dwrite(dataset_.get(), H5T_STD_U8LE, in_memory.get(), in_file.get(), H5P_DEFAULT, bytes.data()), 0);
  }
  // By HDF5, which refuses what does not fit its checksum.
  std::string Read(hsize_t number) const {
    const Hdf5Lock lock;
    const SpaceHandle in_file = PlaceOf(number), in_memory(H5Screate_simple(1, &bytes_, nullptr));
    std::string bytes(bytes_, '\0');
    const herr_t read =
        H5Dread(dataset_.get(), H5T_STD_U8LE, in_memory.get(), in_file.get(), H5P_DEFAULT, bytes.data());
    return read < 0 ? "refused: " + Hdf5Reason() : bytes;
  }

  bool HasGroup(const char* name) const { return H5Lexists(file_.get(), name, H5P_DEFAULT) > 0; }

 private:
  SpaceHandle PlaceOf(hsize_t number) const {
    SpaceHandle space(H5Dget_space(dataset_.get()));
    const hsize_t offset = number * bytes_;
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &offset, nullptr, &bytes_, nullptr);
    return space;
  }

  std::string path_;
  hsize_t bytes_;
  FileHandle file_;
  DatasetHandle dataset_;
};

std::string RandomBytes(uint32_t seed, size_t count = FileOfChunks::kBytes) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(ChunkDriver, ChunkIsWrittenByItsOwnerAndReadByHdf5) {
  const testing::ScratchFolder folder;
  const FileOfChunks file(folder.File("f.h5"));
  const std::string first = RandomBytes(1), second = RandomBytes(2), again = RandomBytes(3);
  for (const auto& [number, bytes] : {std::pair(hsize_t{5}, &first), {hsize_t{0}, &second}, {hsize_t{5}, &again}}) {
    StoredChunk chunk(bytes->data(), bytes->size());
    file.Find(&chunk, number);
    EXPECT_FALSE(file.Holds(*bytes)) << "HDF5 wrote it, under its lock";
    chunk.Write("writing");
    EXPECT_TRUE(file.Holds(*bytes));
    EXPECT_EQ(file.Read(number), *bytes);
  }
  EXPECT_FALSE(file.Holds(first)) << "a chunk that is written again stays where it is";
  EXPECT_EQ(file.Read(0), second);
}

// Zeros behind it are not written where they are, and are where something else was.
TEST(ChunkDriver, ChunkThatHasBegunIsReadWithZerosBehind) {
  const testing::ScratchFolder folder;
  const FileOfChunks file(folder.File("f.h5"));
  const std::string before = RandomBytes(1), text = RandomBytes(2);
  const auto begun = [&](size_t used) { return text.substr(0, used) + std::string(FileOfChunks::kBytes - used, '\0'); };
  const auto write = [&](hsize_t number, size_t used, const BegunChunk& known) {
    const std::string there = text.substr(0, used);  // no byte more: nothing behind it is read
    StoredChunk chunk(there.data(), used, FileOfChunks::kBytes, known);
    file.Find(&chunk, number);
    chunk.Write("writing");
    EXPECT_EQ(file.Read(number), begun(used)) << used;
    return chunk.begun();
  };
  StoredChunk whole(before.data(), before.size());
  file.Find(&whole, 3);
  whole.Write("writing");
  EXPECT_EQ(write(3, 100, {}).place, whole.begun().place);
  EXPECT_FALSE(file.Holds(before.substr(200)));
  BegunChunk begun_6;
  for (const size_t used : {0, 2, 100, 100, 2048, 4094, 4096}) begun_6 = write(6, used, begun_6);
  EXPECT_EQ(begun_6.bytes, 4096u);
  // Of another chunk, or longer than this one: not what is there.
  write(3, 50, begun_6);
  const BegunChunk begun_3 = write(3, 3000, {});
  write(3, 2000, begun_3);
}

TEST(ChunkDriver, OfABegunChunkWhatIsNewIsWrittenAndRoomForAllIsTaken) {
  constexpr hsize_t kBytes = 1 << 20;
  const testing::ScratchFolder folder;
  const std::string path = folder.File("f.h5"), text = RandomBytes(4, 5000);
  const FileOfChunks file(path, Driver::kOfChunks, kBytes);
  StoredChunk first(text.data(), 2, kBytes);
  file.Find(&first, 0);
  first.Write("writing");
  // A reader takes a file with holes for one that brings more than it has.
  struct stat on_disk {};
  ASSERT_EQ(::stat(path.c_str(), &on_disk), 0);
  EXPECT_GE(int64_t{on_disk.st_blocks} * 512, static_cast<int64_t>(kBytes));
  const auto place = static_cast<std::streamoff>(first.begun().place);
  for (const std::streamoff changed : {std::streamoff{1}, std::streamoff{500000}}) {
    std::fstream other(path, std::ios::in | std::ios::out | std::ios::binary);
    other.seekp(place + changed).put('\x55');
  }
  StoredChunk second(text.data(), 5000, kBytes, first.begun());
  file.Find(&second, 0);
  second.Write("writing");
  const std::string bytes = file.Bytes().substr(static_cast<size_t>(place), kBytes);
  EXPECT_EQ(bytes[1], '\x55') << "it was there";
  EXPECT_EQ(bytes[500000], '\x55') << "zeros were";
  EXPECT_EQ(bytes.substr(2, 4998), text.substr(2, 4998));
}

TEST(ChunkDriver, FilesAreThoseThatHdf5WritesAlone) {
  const testing::ScratchFolder folder;
  std::string written, alone;
  for (const Driver driver : {Driver::kOfChunks, Driver::kOfHdf5}) {
    const std::string path = folder.File(driver == Driver::kOfChunks ? "chunks.h5" : "alone.h5");
    {
      const FileOfChunks file(path, driver);
      uint32_t seed = 0;
      for (const hsize_t number : {5, 0, 5, 1, 2, 7}) {  // one of them twice, some of them never
        const std::string bytes = RandomBytes(++seed);
        if (driver == Driver::kOfHdf5) {
          file.Write(number, bytes);
          continue;
        }
        StoredChunk chunk(bytes.data(), bytes.size());
        file.Find(&chunk, number);
        chunk.Write("writing");
      }
    }
    std::ifstream in(path, std::ios::binary);
    (driver == Driver::kOfChunks ? written : alone).assign(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_GT(alone.size(), 5 * FileOfChunks::kBytes);
  EXPECT_TRUE(written == alone);
}

TEST(ChunkDriver, AFileThatIsOpenedTwiceIsOne) {
  const testing::ScratchFolder folder;
  const FileOfChunks file(folder.File("f.h5")), other(folder.File("g.h5"));
  const Hdf5Lock lock;
  const FileHandle again(H5Fopen(folder.File("f.h5").c_str(), H5F_ACC_RDWR, AccessBy(Driver::kOfChunks).get()));
  ASSERT_TRUE(again.valid()) << Hdf5Reason();
  const GroupHandle group(H5Gcreate2(again.get(), "made", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  EXPECT_TRUE(file.HasGroup("made"));
  EXPECT_FALSE(other.HasGroup("made"));
}

TEST(ChunkDriver, WritingWaitsForNobodyInHdf5) {
  const testing::ScratchFolder folder;
  const FileOfChunks file(folder.File("f.h5"));
  const std::string bytes = RandomBytes(4);
  StoredChunk chunk(bytes.data(), bytes.size());
  file.Find(&chunk, 1);
  std::optional<Hdf5Lock> held(std::in_place);
  auto written = std::async(std::launch::async, [&] { chunk.Write("writing"); });
  const std::future_status status = written.wait_for(std::chrono::seconds(20));
  held.reset();  // or what waits for it would be waited for
  EXPECT_EQ(status, std::future_status::ready);
  written.get();
  EXPECT_TRUE(file.Holds(bytes));
}

TEST(ChunkDriver, FlushWritesTheChunkThatWaits) {
  const testing::ScratchFolder folder;
  const FileOfChunks file(folder.File("f.h5"));
  const std::string bytes = RandomBytes(5);
  StoredChunk chunk(bytes.data(), bytes.size());
  const Hdf5Lock lock;
  chunk.FindPlace(
      [&](const void* values, size_t size) {
        const herr_t handed_over = file.HandOver(2, values, size);
        EXPECT_FALSE(file.Holds(bytes));
        return handed_over < 0 ? handed_over : file.Flush();  // as where the index leaves HDF5's cache by itself
      },
      "writing");
  EXPECT_TRUE(file.Holds(bytes));
  chunk.Write("writing");
  EXPECT_EQ(file.Read(2), bytes);
}

// A page that holds bytes until nobody can read it any more.
class ClosingPage {
 public:
  explicit ClosingPage(const std::string& bytes) : size_(bytes.size()) {
    address_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address_ == MAP_FAILED) throw std::bad_alloc();
    std::memcpy(address_, bytes.data(), size_);
  }
  ~ClosingPage() { munmap(address_, size_); }
  ClosingPage(const ClosingPage&) = delete;
  ClosingPage& operator=(const ClosingPage&) = delete;
  const void* address() const { return address_; }
  void Close() { ASSERT_EQ(mprotect(address_, size_, PROT_NONE), 0); }

 private:
  size_t size_;
  void* address_;
};

// A kill between the two would leave an index that names bytes beyond the end of the file. Here the chunk cannot be
// written, and so must nothing be that comes behind it.
TEST(ChunkDriver, NothingThatNamesAChunkIsWrittenBeforeIt) {
  const testing::ScratchFolder folder;
  const FileOfChunks file(folder.File("f.h5"));
  ClosingPage page(RandomBytes(7));
  StoredChunk chunk(page.address(), FileOfChunks::kBytes);
  page.Close();
  const Hdf5Lock lock;
  std::string before;
  const auto hand_over = [&](const void* values, size_t size) {
    const herr_t handed_over = file.HandOver(2, values, size);
    before = file.Bytes();
    return handed_over < 0 ? handed_over : file.Flush();
  };
  try {
    chunk.FindPlace(hand_over, "writing");
    ADD_FAILURE() << "a chunk that cannot be read was written";
  } catch (const FailedError& error) {
    EXPECT_EQ(std::string(error.what()).find(std::string("writing failed: ") + std::strerror(EFAULT)), 0U)
        << error.what();
  }
  // A system may lengthen the file up to where the chunk would lie.
  const std::string after = file.Bytes();
  EXPECT_TRUE(after.starts_with(before));
  EXPECT_EQ(after.find_first_not_of('\0', before.size()), std::string::npos);
}

TEST(ChunkDriver, ChunkThatIsGivenUpIsForgotten) {
  const testing::ScratchFolder folder;
  const FileOfChunks file(folder.File("f.h5"));
  const std::string bytes = RandomBytes(8);
  StoredChunk chunk(bytes.data(), bytes.size());
  const Hdf5Lock lock;
  const auto hand_over = [&](const void* values, size_t size) -> herr_t {
    file.HandOver(2, values, size);
    throw std::runtime_error("given up");
  };
  EXPECT_THROW(chunk.FindPlace(hand_over, "writing"), std::runtime_error);
  EXPECT_GE(file.Flush(), 0);
  EXPECT_FALSE(file.Holds(bytes)) << "the driver still knew it";
}

// HDF5's words, one after the other: 360 of them, then both sums are folded.
uint32_t SumWordByWord(const std::string& bytes) {
  uint32_t sum1 = 0, sum2 = 0;
  const auto fold = [&] {
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  };
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])); };
  for (size_t word = 0; word < bytes.size() / 2; ++word) {
    sum1 += byte(2 * word) << 8 | byte(2 * word + 1);
    sum2 += sum1;
    if (word % 360 == 359 || word + 1 == bytes.size() / 2) fold();
  }
  if (bytes.size() % 2 != 0) {
    sum1 += byte(bytes.size() - 1) << 8;
    sum2 += sum1;
    fold();
  }
  fold();
  return sum2 << 16 | sum1;
}

TEST(Fletcher32, EveryWayToComputeItIsTheDefinition) {
  std::vector<std::string> texts = {std::string(262144, '\xff'), std::string(262144, '\0'), RandomBytes(6, 262144)};
  for (size_t length = 0; length < 200; ++length) texts.push_back(RandomBytes(static_cast<uint32_t>(length), length));
  for (size_t length = 715; length < 725; ++length) texts.push_back(std::string(length, '\xff'));
  for (const Fletcher32Function function : Fletcher32Functions()) {
    for (const std::string& text : texts) {
      const auto* const data = reinterpret_cast<const unsigned char*>(text.data());
      ASSERT_EQ(function(data, text.size(), text.size()), SumWordByWord(text)) << text.size() << " bytes";
    }
  }
}

TEST(Fletcher32, OfAChunkThatHasBegunIsThatOfTheZerosBehind) {
  const std::string text = RandomBytes(7, 6000), ones(6000, '\xff');
  for (const Fletcher32Function function : Fletcher32Functions()) {
    for (const std::string& all : {text, ones}) {
      for (const size_t used : {0, 2, 100, 718, 720, 722, 1440, 5000, 5998}) {
        for (const size_t bytes : {used, used + 1, used + 2, used + 717, used + 720, used + 30001}) {
          std::string padded = all.substr(0, used);
          padded.resize(bytes, '\0');
          ASSERT_EQ(function(reinterpret_cast<const unsigned char*>(all.data()), used, bytes), SumWordByWord(padded))
              << used << " of " << bytes << " bytes";
        }
      }
    }
  }
}

}  // namespace
}  // namespace headscope::data
