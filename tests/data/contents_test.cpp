// SPDX-License-Identifier: Apache-2.0
// What headscope does with a table of contents that lies: the process that parses HDF5 may have been taken over by the
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "base/errors.h"
#include "contents_fuzz.h"
#include "data/trace_schema.h"
#include "trace/stored_trace.h"

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
  switch (random() % 9) {
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
  const Contents& original = SeedTrace().contents;
  const std::string bytes = EncodeContents(original);
  const int runs = Runs();
  int read = 0;
  for (int number = 0; number < runs; ++number) {
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
    read += ReadByContents(std::move(contents));
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
