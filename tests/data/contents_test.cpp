// SPDX-License-Identifier: Apache-2.0
// What headscope does with a table of contents that lies: the process that parses HDF5 may have been taken over by the
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "base/errors.h"
#include "contents_fuzz.h"
#include "data/trace_schema.h"
#include "synthetic_trace.h"
#include "trace/compressed_chunk.h"
#include "trace/stored_trace.h"
#include "trace/untrusted_file.h"

namespace headscope::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadByContents;
using testing::SeedTrace;
using ::testing::ThrowsMessage;

StoredGroup& GroupOf(Contents& contents, const std::string& path) {
  for (StoredGroup& group : contents.groups) {
    if (group.path == path) return group;
  }
  throw std::logic_error("no group " + path);
}

StoredDataset& DatasetOf(Contents& contents, const std::string& path, const std::string& name) {
  for (StoredDataset& dataset : GroupOf(contents, path).datasets) {
    if (dataset.name == name) return dataset;
  }
  throw std::logic_error("no dataset " + name);
}

StoredAttribute& AttributeOf(Contents& contents, const std::string& path, const std::string& name) {
  for (StoredAttribute& attribute : GroupOf(contents, path).attributes) {
    if (attribute.name == name) return attribute;
  }
  throw std::logic_error("no attribute " + name);
}

TEST(TableOfContents, SaysWhereEverythingIsAndComesBackFromItsBytes) {
  Contents contents = SeedTrace().contents;
  EXPECT_FALSE(contents.without_filter) << "this kernel has no seccomp";
  EXPECT_TRUE(ReadByContents(contents));
  const StoredDataset& k = DatasetOf(contents, "attention", "k");
  EXPECT_EQ(k.type.kind, StoredKind::kBFloat16);
  EXPECT_EQ(k.chunk_bytes, 8 * 4 * 2 + 4u);
  EXPECT_EQ(k.chunk_addresses.size(), 1u);
  const std::string bytes = EncodeContents(contents);
  Contents again;
  ASSERT_TRUE(DecodeContents(bytes, &again));
  EXPECT_EQ(EncodeContents(again), bytes);
  for (size_t cut = 0; cut < bytes.size(); cut += 7) {
    EXPECT_FALSE(DecodeContents(std::span(bytes).first(cut), &again)) << cut;
  }
  EXPECT_FALSE(DecodeContents(bytes + "x", &again));
}

struct Lie {
  const char* name;
  const char* field;
  const char* problem;
  std::function<void(Contents&)> tell;
};

void PrintTo(const Lie& lie, std::ostream* out) {
  *out << lie.name;
}

class Lies : public ::testing::TestWithParam<Lie> {};

TEST(TableOfContents, KnowsTheSizesOfCompressedChunks) {
  Contents contents = SeedTrace(TraceStorage::kCompressed).contents;
  EXPECT_TRUE(ReadByContents(contents, TraceStorage::kCompressed));
  const StoredDataset& k = DatasetOf(contents, "attention", "k");
  EXPECT_EQ(k.filters, kCompressedFilters);
  EXPECT_EQ(k.chunk_bytes, 8 * 4 * 2 + 4u);
  ASSERT_EQ(k.chunk_sizes.size(), 1u);
  EXPECT_GT(k.chunk_sizes[0], 4u);
  EXPECT_EQ(DatasetOf(contents, "tokens", "ids").filters, kPlainFilters);
  const std::string bytes = EncodeContents(contents);
  Contents again;
  ASSERT_TRUE(DecodeContents(bytes, &again));
  EXPECT_EQ(EncodeContents(again), bytes);

  const auto lie = [&](const std::function<void(StoredDataset&)>& tell, const std::string& problem) {
    Contents told = contents;
    tell(DatasetOf(told, "attention", "k"));
    EXPECT_THAT(
        [&] {
          const StoredTrace trace(SeedTrace(TraceStorage::kCompressed).path, told);
          std::vector<char> out(8 * 4 * 2);
          trace.Read(TraceTensor::kK, 0, 0, 0, 8, out.data());
        },
        ThrowsMessage<BadInputError>(AllOf(HasSubstr("/attention/k"), HasSubstr(problem), HasSubstr("capture"))));
  };
  lie([](StoredDataset& one) { one.chunk_sizes.clear(); }, "list of chunks");
  lie([](StoredDataset& one) { one.chunk_sizes[0] = 0; }, "has a chunk of 0 bytes");
  lie([](StoredDataset& one) { one.chunk_sizes[0] = 4; }, "has a chunk of 4 bytes");
  lie([](StoredDataset& one) { one.chunk_sizes[0] = uint64_t{1} << 62; }, "has a chunk of");
  lie([](StoredDataset& one) { --one.chunk_sizes[0]; }, "checksum is wrong");
  lie([](StoredDataset& one) { one.chunk_addresses[0] = kNoAddress; }, "lacks data");
  lie([](StoredDataset& one) { one.filters = kPlainFilters; }, "list of chunks");
  lie([](StoredDataset& one) { one.filters = {1, 2, 3}; }, "uses filter 1");
  lie([](StoredDataset& one) { one.filters = {2, 1}; }, "uses filter 2");
  Contents told = contents;
  DatasetOf(told, "tokens", "ids").filters = kCompressedFilters;
  EXPECT_THAT([&] { StoredTrace(SeedTrace(TraceStorage::kCompressed).path, told); },
              ThrowsMessage<BadInputError>(HasSubstr("/tokens/ids: uses filter 2")));
}

// Zeros pack a thousandfold. What lies of them would have a small file unpack without end.
TEST(TableOfContents, CompressedNumbersMayBeAnyMultipleOfTheFileUpToALimit) {
  const testing::ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  std::filesystem::copy_file(SeedTrace(TraceStorage::kCompressed).path, path);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string(2 << 20, 'x');
  const auto refusal = [&](uint64_t num_chunks, uint64_t stored_bytes) -> std::string {
    constexpr uint64_t kItems = 1024, kDim = 64, kFirst = 64 << 10;
    StoredDataset k;
    k.name = "k";
    k.readable = true;
    k.type = {StoredKind::kFloat32, StoredClass::kFloat, 4};
    k.extents = {1, 1, num_chunks * kItems, kDim};
    k.filters = kCompressedFilters;
    k.layout = StoredLayout::kChunked;
    k.chunk = {1, 1, kItems, kDim};
    k.chunk_bytes = kItems * kDim * 4 + 4;
    for (uint64_t chunk = 0; chunk < num_chunks; ++chunk) k.chunk_addresses.push_back(kFirst + chunk * stored_bytes);
    k.chunk_sizes.assign(num_chunks, stored_bytes);
    Contents contents;
    contents.groups.emplace_back();
    contents.groups.back().path = "attention";
    contents.groups.back().readable = true;
    contents.groups.back().datasets = {k};
    try {
      UntrustedFile file(path, kTraceFile, contents);
      CheckedDataset dataset = file.Dataset(file.Group("attention"), "k", StoredKind::kFloat32, 4, 2);
      file.RequireStored(dataset, static_cast<int64_t>(num_chunks * kItems), StoredLayout::kChunked);
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(4000, 300), "") << "not quite 1 GiB in 1.2 MB";
  EXPECT_THAT(refusal(4200, 300), HasSubstr("/attention/k: brings the data to 1101"));
  EXPECT_THAT(refusal(10, 200), HasSubstr("has a chunk of 200 bytes")) << "less than zeros take";
}

TEST(CompressedChunk, UnpacksWhatZlibPackedAndNothingElse) {
  const std::string numbers = "a1b2c3d4e5", shuffled = "abcde12345";
  std::string stored(compressBound(shuffled.size()), '\0');
  uLongf size = stored.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(stored.data()), &size, reinterpret_cast<const Bytef*>(shuffled.data()),
                     shuffled.size()),
            Z_OK);
  stored.resize(size);
  std::string out(10, '\0');
  EXPECT_TRUE(ReadCompressedChunk(stored, 2, out));
  EXPECT_EQ(out, numbers);
  std::string longer(12, '\0'), shorter(8, '\0');
  EXPECT_FALSE(ReadCompressedChunk(stored, 2, longer)) << "the stream has less";
  EXPECT_FALSE(ReadCompressedChunk(stored, 2, shorter)) << "the stream has more";
  EXPECT_FALSE(ReadCompressedChunk(stored + "x", 2, out)) << "bytes behind the stream";
  for (size_t i = 0; i < stored.size(); ++i) {
    EXPECT_FALSE(ReadCompressedChunk(std::span(stored).first(i), 2, out)) << "cut at " << i;
  }
  // 64 MiB of zeros in 64 KiB: no more is unpacked than a chunk has.
  const std::string zeros(64 << 20, '\0');
  std::string bomb(compressBound(zeros.size()), '\0');
  size = bomb.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(bomb.data()), &size, reinterpret_cast<const Bytef*>(zeros.data()),
                     zeros.size()),
            Z_OK);
  bomb.resize(size);
  EXPECT_FALSE(ReadCompressedChunk(bomb, 2, out));
}

TEST_P(Lies, AreRefusedWithOneSentence) {
  Contents contents = SeedTrace().contents;
  GetParam().tell(contents);
  EXPECT_THAT([&] { StoredTrace(SeedTrace().path, contents); },
              ThrowsMessage<BadInputError>(
                  AllOf(HasSubstr(GetParam().field), HasSubstr(GetParam().problem), HasSubstr("capture"))));
}

const Lie kLies[] = {
    {"ChunkBeyondTheFile", "/attention/k", "beyond the end",
     [](Contents& c) { DatasetOf(c, "attention", "k").chunk_addresses[0] = 1 << 20; }},
    {"ChunkWhoseEndOverflows", "/attention/k", "beyond the end",
     [](Contents& c) { DatasetOf(c, "attention", "k").chunk_addresses[0] = kNoAddress - 8; }},
    {"ChunkThatIsMissing", "/attention/v", "lacks data",
     [](Contents& c) { DatasetOf(c, "attention", "v").chunk_addresses[0] = kNoAddress; }},
    {"TwoDatasetsInOnePlace", "/attention/v", "shares bytes",
     [](Contents& c) {
       DatasetOf(c, "attention", "v").chunk_addresses = DatasetOf(c, "attention", "k").chunk_addresses;
     }},
    {"TooFewChunks", "/attention/q", "list of chunks",
     [](Contents& c) { DatasetOf(c, "attention", "q").chunk_addresses.clear(); }},
    {"ChunksOfAnotherSize", "/attention/q", "list of chunks",
     [](Contents& c) { DatasetOf(c, "attention", "q").chunk_bytes += 1; }},
    {"ChunkOfNothing", "/attention/q", "chunk",
     [](Contents& c) {
       DatasetOf(c, "attention", "q").chunk = {0, 0, 0, 0};
     }},
    {"ChunkAcrossHeads", "/attention/q", "chunks that",
     [](Contents& c) { DatasetOf(c, "attention", "q").chunk[1] = 2; }},
    {"ChunkOfHalfAVector", "/attention/q", "chunks that",
     [](Contents& c) { DatasetOf(c, "attention", "q").chunk[3] = 2; }},
    {"NoChecksum", "/attention/k", "chunks that", [](Contents& c) { DatasetOf(c, "attention", "k").filters.clear(); }},
    {"KnownTypeOfNoSize", "/tokens/ids", "an integer type",
     [](Contents& c) { DatasetOf(c, "tokens", "ids").type.size = 0; }},
    {"KnownTypeOfAnotherSize", "/tokens/ids", "an integer type",
     [](Contents& c) { DatasetOf(c, "tokens", "ids").type.size = uint64_t{1} << 62; }},
    {"ContiguousWhereChunksBelong", "/tokens/ids", "stored in a way",
     [](Contents& c) { DatasetOf(c, "tokens", "ids").layout = StoredLayout::kContiguous; }},
    {"OtherIndexOfChunks", "/tokens/ids", "stored in a way",
     [](Contents& c) { DatasetOf(c, "tokens", "ids").layout = StoredLayout::kOther; }},
    {"MoreChunksThanTheFileHolds", "/tokens/ids", "more chunks",
     [](Contents& c) { DatasetOf(c, "tokens", "ids").layout = StoredLayout::kTooManyParts; }},
    {"NumbersThatWereNeverWritten", "/attention/layers", "never written",
     [](Contents& c) { DatasetOf(c, "attention", "layers").address = kNoAddress; }},
    {"NumbersBeyondTheFile", "/attention/layers", "beyond the end",
     [](Contents& c) { DatasetOf(c, "attention", "layers").address = kNoAddress - 1; }},
    {"NumbersOfAnotherLength", "/attention/layers", "instead of",
     [](Contents& c) { DatasetOf(c, "attention", "layers").stored_bytes = 1 << 30; }},
    {"ConfigOfExabytes", "/model/config_json", "bytes",
     [](Contents& c) { DatasetOf(c, "model", "config_json").type.size = uint64_t{1} << 63; }},
    {"AttributeShorterThanItsType", "attribute num_layers", "cannot be read",
     [](Contents& c) { AttributeOf(c, "model", "num_layers").bytes.resize(3); }},
    {"AttributeLongerThanItsType", "attribute num_layers", "cannot be read",
     [](Contents& c) { AttributeOf(c, "model", "num_layers").bytes.resize(300); }},
    {"ListShorterThanItsExtent", "attribute head_dim", "cannot be read",
     [](Contents& c) { AttributeOf(c, "layers", "head_dim").extents[0] = 2; }},
    {"SecondName", "/attention", "second name", [](Contents& c) { GroupOf(c, "attention").foreign_link = "k"; }},
};

INSTANTIATE_TEST_SUITE_P(All, Lies, ::testing::ValuesIn(kLies),
                         [](const auto& test) { return std::string(test.param.name); });

// A place in the description, changed to an extreme or to something near what it was.
void Disturb(std::mt19937& random, uint64_t* value) {
  const auto below = [&](uint64_t limit) { return random() % limit; };
  const uint64_t choices[] = {0,          1,          kNoAddress, uint64_t{1} << below(64),
                              *value + 1, *value - 1, *value * 2, below(32768)};
  *value = choices[below(std::size(choices))];
}

void DisturbOne(std::mt19937& random, std::vector<uint64_t>* values) {
  if (values->empty() || random() % 8 == 0) {
    values->resize(random() % 6, random() % 64);
  } else {
    Disturb(random, &(*values)[random() % values->size()]);
  }
}

void DisturbDataset(std::mt19937& random, StoredDataset* dataset) {
  switch (random() % 10) {
    case 9:
      return DisturbOne(random, &dataset->chunk_sizes);
    case 0:
      return DisturbOne(random, &dataset->extents);
    case 1:
      return DisturbOne(random, &dataset->chunk);
    case 2:
      return DisturbOne(random, &dataset->chunk_addresses);
    case 3:
      return Disturb(random, &dataset->address);
    case 4:
      return Disturb(random, &dataset->stored_bytes);
    case 5:
      return Disturb(random, &dataset->chunk_bytes);
    case 6:
      return Disturb(random, &dataset->type.size);
    case 7:
      dataset->layout = static_cast<StoredLayout>(random() % 5);
      return;
    default:
      dataset->type.kind = static_cast<StoredKind>(random() % 12);
  }
}

void DisturbContents(std::mt19937& random, Contents* contents) {
  StoredGroup& group = contents->groups[random() % contents->groups.size()];
  if (!group.datasets.empty() && random() % 4 != 0) {
    return DisturbDataset(random, &group.datasets[random() % group.datasets.size()]);
  }
  if (group.attributes.empty()) return;
  StoredAttribute& attribute = group.attributes[random() % group.attributes.size()];
  if (random() % 4 == 0 || attribute.bytes.empty()) return DisturbOne(random, &attribute.extents);
  attribute.bytes[random() % attribute.bytes.size()] = static_cast<char>(random());
}

int Runs() {
  const char* more = std::getenv("HEADSCOPE_FUZZ_RUNS");
  return more != nullptr ? std::atoi(more) : 60000;
}

// Half of the tables are disturbed in their fields, half in their bytes.
TEST(TableOfContents, TensOfThousandsThatLieNeitherCrashNorTakeMuchMemory) {
  const int runs = Runs();
  const std::array tables = {EncodeContents(SeedTrace().contents),
                             EncodeContents(SeedTrace(TraceStorage::kCompressed).contents)};
  int read = 0;
  for (int number = 0; number < runs; ++number) {
    const TraceStorage storage = number % 4 < 2 ? TraceStorage::kPlain : TraceStorage::kCompressed;
    const Contents& original = SeedTrace(storage).contents;
    const std::string& bytes = tables[number % 4 < 2 ? 0 : 1];
    std::mt19937 random(static_cast<unsigned>(number));
    const int changes = 1 + static_cast<int>(random() % 3);
    Contents contents;
    if (number % 2 == 0) {
      contents = original;
      for (int i = 0; i < changes; ++i) DisturbContents(random, &contents);
    } else {
      std::string changed = bytes;
      for (int i = 0; i < changes; ++i) {
        changed[kContentsHeaderBytes + random() % (changed.size() - kContentsHeaderBytes)] =
            static_cast<char>(random());
      }
      if (!DecodeContents(changed, &contents)) continue;
    }
    read += ReadByContents(std::move(contents), storage);
  }
  EXPECT_GT(read, runs / 50);
  EXPECT_LT(read, runs * 49 / 50);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 128 << 10) << "KiB for a file of 20 KiB";
#endif
  std::printf("%d of %d tables were read by, the others were refused\n", read, runs);
}

}  // namespace
}  // namespace headscope::data
