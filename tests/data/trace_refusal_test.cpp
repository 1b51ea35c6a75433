// Hostile and broken files: each is refused with one sentence that names file, field and remedy, before its data is
// read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "spoiled_file.h"
#include "synthetic_trace.h"

namespace headscope::data {
namespace {

using ::testing::AllOf;
using testing::Chunked;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Replace;
using testing::ReplaceAttribute;
using testing::Scalar;
using testing::ScratchFolder;
using testing::SetInt32;
using testing::SetInt64;
using testing::Simple;
using testing::SmallLayout;
using testing::WriteTrace;

constexpr int64_t kTokens = 20;

// Bad files are made from a good trace, by plain HDF5 calls.
hid_t VariableText() {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  return type;
}

hid_t Unlimited(hsize_t extent) {
  const hsize_t most = H5S_UNLIMITED;
  return H5Screate_simple(1, &extent, &most);
}

hid_t FixedText(size_t bytes) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, bytes);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

hid_t Compound() {
  const hid_t type = H5Tcreate(H5T_COMPOUND, 8);
  H5Tinsert(type, "a", 0, H5T_STD_I32LE);
  H5Tinsert(type, "b", 4, H5T_STD_I32LE);
  return type;
}

void SetText(hid_t file, const char* object, const char* name, const std::string& value) {
  ReplaceAttribute(file, object, name, FixedText(value.size()), Scalar(), value.data());
}

template <typename Value>
void Overwrite(hid_t file, const char* name, hid_t memory_type, size_t index, Value value) {
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset);
  std::vector<Value> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
  ASSERT_GE(H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  values.at(index) = value;
  ASSERT_GE(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Sclose(space);
  H5Dclose(dataset);
}

struct BadFile {
  const char* name;
  const char* field;    // in the message
  const char* problem;  // in the message
  std::function<void(hid_t)> spoil;
};

void PrintTo(const BadFile& bad, std::ostream* out) {
  *out << bad.name;
}

class BadFiles : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefusedWithOneSentence) {
  const ScratchFolder folder;
  const std::string path = folder.File("bad.h5");
  WriteTrace(path, SmallLayout(Encoding::kBFloat16, kTokens), kTokens, kTokens);
  ASSERT_NO_THROW(TraceReader{path});
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  GetParam().spoil(file);
  H5Fclose(file);
  try {
    TraceReader reader(path);
    FAIL() << "was read";
  } catch (const BadTraceError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(path + ": "), HasSubstr(GetParam().field), HasSubstr(GetParam().problem)));
    EXPECT_THAT(error.what(), ::testing::AnyOf(HasSubstr("capture"), HasSubstr("trace format 1 knows")));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
  }
}

const BadFile kBadFiles[] = {
    {"VariableLengthAttribute", "attribute encoding", "a variable-length string",
     [](hid_t f) {
       const char* text = "bfloat16";
       ReplaceAttribute(f, "attention", "encoding", VariableText(), Scalar(), &text);
     }},
    {"VariableLengthConfig", "/model/config_json", "not a fixed-length string",
     [](hid_t f) { Replace(f, "model/config_json", VariableText(), Scalar()); }},
    {"VariableLengthDataset", "/tokens/ids", "a variable-length type",
     [](hid_t f) { Replace(f, "tokens/ids", H5Tvlen_create(H5T_STD_I32LE), Simple({kTokens})); }},
    {"CompoundDataset", "/attention/layers", "a compound type",
     [](hid_t f) { Replace(f, "attention/layers", Compound(), Simple({3})); }},
    {"ReferenceDataset", "/attention/q_rows", "a reference",
     [](hid_t f) { Replace(f, "attention/q_rows", H5T_STD_REF_OBJ, Simple({10})); }},
    {"CompoundAttribute", "attribute tokens_flushed", "a compound type",
     [](hid_t f) {
       const int32_t values[2] = {1, 2};
       ReplaceAttribute(f, "/", "tokens_flushed", Compound(), Scalar(), values);
     }},
    {"SoftLinkToDataset", "/attention", "\"k\" is a soft or external link",
     [](hid_t f) {
       H5Ldelete(f, "attention/k", H5P_DEFAULT);
       H5Lcreate_soft("/attention/v", f, "attention/k", H5P_DEFAULT, H5P_DEFAULT);
     }},
    {"ExternalLinkToDataset", "/attention", "\"k\" is a soft or external link",
     [](hid_t f) {
       H5Ldelete(f, "attention/k", H5P_DEFAULT);
       H5Lcreate_external("/etc/passwd", "/k", f, "attention/k", H5P_DEFAULT, H5P_DEFAULT);
     }},
    {"ExternalLinkBesideTheData", "/tokens", "\"notes\" is a soft or external link",
     [](hid_t f) { H5Lcreate_external("/etc/passwd", "/k", f, "tokens/notes", H5P_DEFAULT, H5P_DEFAULT); }},
    {"SoftLinkToGroup", "/", "\"tokens\" is a soft or external link",
     [](hid_t f) {
       H5Lmove(f, "tokens", f, "real", H5P_DEFAULT, H5P_DEFAULT);
       H5Lcreate_soft("/real", f, "tokens", H5P_DEFAULT, H5P_DEFAULT);
     }},
    {"ExternalStorage", "/attention/layers", "in other files",
     [](hid_t f) {
       const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
       H5Pset_external(properties, "/etc/passwd", 0, 12);
       Replace(f, "attention/layers", H5T_STD_I32LE, Simple({3}), properties);
     }},
    {"VirtualDataset", "/attention/layers", "not a readable dataset",
     [](hid_t f) {
       const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
       H5Pset_virtual(properties, Simple({3}), "/etc/passwd", "/layers", Simple({3}));
       Replace(f, "attention/layers", H5T_STD_I32LE, Simple({3}), properties);
     }},
    {"ForeignFilter", "/tokens/step", "uses filter 1",
     [](hid_t f) {
       const hid_t properties = Chunked({kTokens});
       H5Pset_deflate(properties, 1);
       Replace(f, "tokens/step", H5T_STD_I32LE, Simple({kTokens}), properties);
     }},
    {"AbsurdExtent", "/tokens/ids", "declares 4398046511104 bytes",
     [](hid_t f) { Replace(f, "tokens/ids", H5T_STD_I32LE, Simple({hsize_t{1} << 40}), Chunked({1024})); }},
    {"ExtentsWhoseProductOverflows", "/attention/lse", "declares 9223372036854775807 bytes",
     [](hid_t f) {
       Replace(f, "attention/lse", H5T_IEEE_F32LE, Simple({hsize_t{1} << 31, hsize_t{1} << 31, hsize_t{1} << 31}),
               Chunked({1, 1, 8}));
     }},
    {"CountThatTheFileCannotHold", "/attention/k", "tells of 1000000 rows or tokens in a file of",
     [](hid_t f) {
       const hid_t old = H5Dopen2(f, "attention/k", H5P_DEFAULT);
       const hid_t type = H5Dget_type(old);
       H5Dclose(old);
       Replace(f, "attention/k", type, Simple({3, 3, 1000000, 16}), Chunked({1, 1, 32, 16}));
       SetInt64(f, "tokens_flushed", 1000000);
       ReplaceAttribute(f, "attention", "max_tokens", H5T_STD_I64LE, Scalar(), std::vector<int64_t>{1000000}.data());
     }},
    {"HugeChunk", "/tokens/phase", "type",
     [](hid_t f) { Replace(f, "tokens/phase", H5T_STD_I8LE, Unlimited(kTokens), Chunked({1 << 25})); }},
    {"HugeChunkOfTheRightType", "/tokens/step", "chunks of 134217728 bytes",
     [](hid_t f) { Replace(f, "tokens/step", H5T_STD_I32LE, Unlimited(kTokens), Chunked({1 << 25})); }},
    {"UnexpectedRank", "/attention/lse", "2 dimensions instead of 3",
     [](hid_t f) {
       Replace(f, "attention/lse", H5T_IEEE_F32LE, Simple({3, 40}));
     }},
    {"GroupInPlaceOfDataset", "/attention/k", "not a readable dataset",
     [](hid_t f) {
       H5Ldelete(f, "attention/k", H5P_DEFAULT);
       H5Gclose(H5Gcreate2(f, "attention/k", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
     }},
    {"DatasetInPlaceOfGroup", "/tokens", "not a readable group",
     [](hid_t f) { Replace(f, "tokens", H5T_STD_I32LE, Simple({3})); }},
    {"OtherFormat", "attribute format", "is \"elsewhere\"", [](hid_t f) { SetText(f, "/", "format", "elsewhere"); }},
    {"NoFormat", "attribute format", "is missing", [](hid_t f) { H5Adelete(f, "format"); }},
    {"NewerVersion", "attribute version", "is 2; this headscope reads version 1",
     [](hid_t f) { SetInt32(f, "/", "version", 2); }},
    {"LongText", "attribute capture_point", "has 20000 bytes",
     [](hid_t f) { SetText(f, "attention", "capture_point", std::string(20000, 'x')); }},
    {"TextWhereANumberBelongs", "attribute num_layers", "a fixed-length string",
     [](hid_t f) { SetText(f, "model", "num_layers", "5"); }},
    {"ListWhereANumberBelongs", "attribute num_layers", "unexpected shape",
     [](hid_t f) {
       const int32_t values[2] = {5, 5};
       ReplaceAttribute(f, "model", "num_layers", H5T_STD_I32LE, Simple({2}), values);
     }},
    {"BooleanBeyondItsValues", "attribute complete", "is 7",
     [](hid_t f) {
       const hid_t attribute = H5Aopen(f, "complete", H5P_DEFAULT);
       const int8_t seven = 7;
       const hid_t type = H5Aget_type(attribute);
       H5Awrite(attribute, type, &seven);
       H5Aclose(attribute);
     }},
    {"UnknownEncoding", "attribute encoding", "is \"int8\"",
     [](hid_t f) { SetText(f, "attention", "encoding", "int8"); }},
    {"EncodingThatTheDataContradicts", "/attention/q", "a floating-point type",
     [](hid_t f) { SetText(f, "attention", "encoding", "float16"); }},
    {"NegativeCount", "attribute tokens_flushed", "is -1", [](hid_t f) { SetInt64(f, "tokens_flushed", -1); }},
    {"CountAboveTheLimit", "attribute tokens_flushed", "above max_tokens",
     [](hid_t f) { SetInt64(f, "tokens_flushed", kTokens + 1); }},
    {"CountBelowTheExtents", "/attention/k", "extent 20 instead of 19",
     [](hid_t f) { SetInt64(f, "tokens_flushed", kTokens - 1); }},
    {"RowsBeyondTheExtents", "/attention/q", "extent 10 instead of 11",
     [](hid_t f) { SetInt64(f, "rows_flushed", 11); }},
    {"HeadDimThatTheDataContradicts", "/attention/q", "extent 16 instead of 32 in dimension 3",
     [](hid_t f) { SetInt32(f, "model", "head_dim", 32); }},
    {"MoreKvHeadsThanQueryHeads", "num_kv_heads 16", "must be 1 to 8",
     [](hid_t f) { SetInt32(f, "model", "num_kv_heads", 16); }},
    {"NegativeHeadDim", "head_dim -16", "must be 1 to", [](hid_t f) { SetInt32(f, "model", "head_dim", -16); }},
    {"LayersThatDoNotRise", "layers 0 after 2", "must rise",
     [](hid_t f) { Overwrite<int32_t>(f, "attention/layers", H5T_NATIVE_INT32, 2, 0); }},
    {"HeadThatTheModelLacks", "qo_heads[3] 8", "must be 0 to 7",
     [](hid_t f) { Overwrite<int32_t>(f, "attention/qo_heads", H5T_NATIVE_INT32, 3, 8); }},
    {"RowsThatDoNotRise", "/attention/q_rows", "holds 4 after 8",
     [](hid_t f) { Overwrite<int32_t>(f, "attention/q_rows", H5T_NATIVE_INT32, 5, 4); }},
    {"RowBeyondTheTokens", "/attention/q_rows", "holds position 20",
     [](hid_t f) { Overwrite<int32_t>(f, "attention/q_rows", H5T_NATIVE_INT32, 9, 20); }},
    {"NegativeToken", "/tokens/ids", "holds -3 for token 7",
     [](hid_t f) { Overwrite<int32_t>(f, "tokens/ids", H5T_NATIVE_INT32, 7, -3); }},
    {"NegativeStep", "/tokens/step", "holds -1 for token 0",
     [](hid_t f) { Overwrite<int32_t>(f, "tokens/step", H5T_NATIVE_INT32, 0, -1); }},
    {"TextOffsetsThatFall", "/tokens/text_offsets", "must rise from 0",
     [](hid_t f) { Overwrite<int64_t>(f, "tokens/text_offsets", H5T_NATIVE_INT64, 4, 1); }},
    {"TextOffsetsBeyondTheText", "/tokens/text", "entries where the other fields tell of 1099511627776",
     [](hid_t f) { Overwrite<int64_t>(f, "tokens/text_offsets", H5T_NATIVE_INT64, kTokens, int64_t{1} << 40); }},
    {"MissingDataset", "/attention/v", "is missing", [](hid_t f) { H5Ldelete(f, "attention/v", H5P_DEFAULT); }},
    {"MissingGroup", "/tokens", "is missing", [](hid_t f) { H5Ldelete(f, "tokens", H5P_DEFAULT); }},
};

INSTANTIATE_TEST_SUITE_P(All, BadFiles, ::testing::ValuesIn(kBadFiles),
                         [](const auto& test) { return std::string(test.param.name); });

// Files that are no HDF5 files of the right kind at all.
void ExpectRefusal(const std::string& path, const std::string& problem) {
  try {
    TraceReader reader(path);
    FAIL() << path << " was read";
  } catch (const TraceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr(problem)));
  }
}

TEST(ForeignFiles, AreRefusedBeforeHdf5SeesThem) {
  const ScratchFolder folder;
  std::ofstream(folder.File("empty.h5"));
  ExpectRefusal(folder.File("empty.h5"), "is not an HDF5 file (0 bytes)");
  std::ofstream(folder.File("text.h5")) << std::string(5000, 'x');
  ExpectRefusal(folder.File("text.h5"), "is not an HDF5 file");
  ExpectRefusal(folder.path(), "is not a regular file");
  ExpectRefusal("/dev/zero", "is not a regular file");
  const hid_t old = H5Fcreate(folder.File("old.h5").c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(old);
  ExpectRefusal(folder.File("old.h5"), "superblock version 0");
}

TEST(DamagedFiles, TruncatedTraceIsRefusedAndNeverReadsAsZeros) {
  const ScratchFolder folder;
  const std::string path = folder.File("whole.h5"), cut = folder.File("cut.h5");
  WriteTrace(path, SmallLayout(Encoding::kBFloat16, 400), 400, 100);
  const auto size = std::filesystem::file_size(path);
  int refused = 0;
  for (int part = 1; part <= 40; ++part) {
    std::filesystem::copy_file(path, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, size * static_cast<uint64_t>(part) / 41);
    try {
      const TraceReader reader(cut);
      EXPECT_EQ(testing::FirstDifference(reader, 400), "") << part;
    } catch (const BadTraceError& error) {
      ++refused;
      const std::string bytes = "holds " + std::to_string(std::filesystem::file_size(cut)) + " bytes of ";
      EXPECT_THAT(error.what(), ::testing::StartsWith(cut + ": " + bytes + std::to_string(size)));
      EXPECT_THAT(error.what(), ::testing::EndsWith("; copy the whole file again"));
    }
  }
  EXPECT_EQ(refused, 40);
}

TEST(DamagedFiles, FlippedBitInTheDataIsFoundByItsChecksum) {
  const ScratchFolder folder;
  const std::string path = folder.File("t.h5");
  const TraceLayout layout = SmallLayout(Encoding::kBFloat16, 400);
  WriteTrace(path, layout, 400, 100);
  // The bytes of one key vector stand in the file as they are.
  std::string needle;
  for (int64_t dim = 0; dim < 16; ++dim) {
    const uint32_t bits =
        testing::ValueBits(Encoding::kBFloat16, testing::PlaceHash(testing::Tensor::kK, 2, 1, 250, dim));
    needle += static_cast<char>(bits & 0xff);
    needle += static_cast<char>(bits >> 8);
  }
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const size_t at = bytes.find(needle);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] = static_cast<char>(bytes[at + 5] ^ 4);
  std::ofstream(path, std::ios::binary) << bytes;
  const TraceReader reader(path);
  std::vector<uint16_t> values(400 * 16);
  EXPECT_THROW(reader.ReadK(1, 1, 0, 10, values.data()), BadTraceError);
  EXPECT_NO_THROW(reader.ReadK(1, 0, 0, 400, values.data()));
}

}  // namespace
}  // namespace headscope::data
