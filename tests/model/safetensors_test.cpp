// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/errors.h"
#include "checkpoint_files.h"
#include "model/checkpoint.h"

namespace headscope::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

std::string RefusalOf(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("model.safetensors", bytes);
  try {
    const SafetensorsFile file(path);
  } catch (const BadInputError& error) {
    const std::string sentence = error.what();
    EXPECT_THAT(sentence, AllOf(HasSubstr("model.safetensors: "), HasSubstr("; "), Not(HasSubstr("\n"))));
    EXPECT_LT(sentence.size(), 900U);
    return sentence;
  }
  return "accepted";
}

constexpr std::string_view kFour = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";

TEST(Safetensors, ReadsWhatAHeaderDescribes) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I16","shape":[2,1],"data_offsets":[4,8]},)" +
      std::string(kFour).substr(1) + "   ";
  const SafetensorsFile file(folder.Write("x.safetensors", Safetensors(header, "abcdefgh")));
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[1].name, "b");
  EXPECT_THAT(file.entries()[1].shape, ::testing::ElementsAre(2, 1));
  std::string data(4, '\0');
  file.Read(file.entries()[1], data.data());
  EXPECT_EQ(data, "efgh");
}

TEST(Safetensors, AcceptsUnusualButValidFiles) {
  EXPECT_EQ(RefusalOf(Safetensors("{}", "")), "accepted");
  EXPECT_EQ(RefusalOf(Safetensors(R"(  {"__metadata__":{}}  )", "")), "accepted");
  EXPECT_EQ(
      RefusalOf(Safetensors(R"({"zero":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", "")),
      "accepted");
  EXPECT_EQ(RefusalOf(Safetensors(R"({"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "1234")),
            "accepted");
  EXPECT_EQ(RefusalOf(Safetensors(R"({"nibbles":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "1")), "accepted");
}

TEST(Safetensors, RefusesFilesThatAreTooShortForTheirHeader) {
  EXPECT_THAT(RefusalOf(""), HasSubstr("has 0 bytes"));
  EXPECT_THAT(RefusalOf("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(RefusalOf(std::string(8, '\xff')), HasSubstr("over the format's limit"));
  EXPECT_THAT(RefusalOf(std::string("\x00\xe1\xf5\x05\0\0\0\0", 8)),
              HasSubstr("runs past the end"));  // exactly the limit
  EXPECT_THAT(RefusalOf(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)), HasSubstr("over the format's limit"));
  EXPECT_THAT(RefusalOf(Safetensors("{}", "").substr(0, 9)), HasSubstr("runs past the end"));
}

TEST(Safetensors, RefusesHeadersThatAreNotJson) {
  EXPECT_THAT(RefusalOf(Safetensors("", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(Safetensors(kFour.substr(0, 30), "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(Safetensors("{\"\xff\":1}", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(Safetensors("{}{}", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf(Safetensors(std::string(100000, '['), "")), HasSubstr("an array"));
  EXPECT_THAT(RefusalOf(Safetensors("[]", "")), HasSubstr("an array"));
  EXPECT_THAT(RefusalOf(Safetensors("7", "")), HasSubstr("a number"));
}

TEST(Safetensors, RefusesDataThatIsNotCoveredExactlyOnce) {
  EXPECT_THAT(RefusalOf(Safetensors(kFour, "12345")),
              HasSubstr("the tensors end at byte 4 of the data and the file has 5"));
  EXPECT_THAT(RefusalOf(Safetensors(kFour, "12")), HasSubstr("the file has 2"));
  const std::string overlap =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  EXPECT_THAT(RefusalOf(Safetensors(overlap, "1234")), HasSubstr("overlap"));
  const std::string hole =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})";
  EXPECT_THAT(RefusalOf(Safetensors(hole, "123")), HasSubstr("hole"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", "1234")),
              HasSubstr("end before they begin"));
}

TEST(Safetensors, RefusesShapesThatDisagreeWithTheirBytes) {
  const auto with_shape = [](const std::string& shape, const std::string& dtype = "U8") {
    return RefusalOf(
        Safetensors(R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,4]}})", "1234"));
  };
  EXPECT_THAT(with_shape("[5]"), HasSubstr("differ from the 5 bytes"));
  EXPECT_THAT(with_shape("[2,9223372036854775807]"), HasSubstr("64 bits"));
  EXPECT_THAT(with_shape("[2,18446744073709551614]"), HasSubstr("larger than any file"));
  EXPECT_THAT(with_shape("[4611686018427387904]", "F64"), HasSubstr("64 bits"));
  EXPECT_THAT(with_shape("[-4]"), HasSubstr("negative"));
  EXPECT_THAT(with_shape("[4.0]"), HasSubstr("whole"));
  EXPECT_THAT(with_shape("[99999999999999999999999999]"), HasSubstr("whole"));
  EXPECT_THAT(with_shape("4"), HasSubstr("a number"));
  EXPECT_THAT(with_shape("[[4]]"), HasSubstr("an array"));
  EXPECT_THAT(with_shape("[3]", "F6_E2M3"), HasSubstr("whole bytes"));
  EXPECT_THAT(with_shape("[4]", "U9"), HasSubstr("dtype \"U9\""));
  std::string rank = "[1";
  for (int i = 0; i < 70; ++i) rank += ",1";
  EXPECT_THAT(with_shape(rank + "]"), HasSubstr("64 dimensions"));
}

TEST(Safetensors, RefusesMissingDoubleAndUnknownFields) {
  EXPECT_THAT(RefusalOf(Safetensors(R"({"a":{"dtype":"U8","shape":[4]}})", "1234")), HasSubstr("lacks one of"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0]}})", "1234")),
              HasSubstr("needs 2"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,2,4]}})", "1234")),
              HasSubstr("needs 2"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})", "1234")),
              HasSubstr("appears twice"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", "1234")),
              HasSubstr("unknown field"));
  EXPECT_THAT(RefusalOf(Safetensors(std::string(kFour.substr(0, kFour.size() - 1)) + "," + std::string(kFour.substr(1)),
                                    "1234")),
              HasSubstr("appears twice"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", "")), HasSubstr("appears twice"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"__metadata__":{"a":1}})", "")), HasSubstr("__metadata__"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"__metadata__":{"a":{"b":"c"}}})", "")), HasSubstr("__metadata__"));
  EXPECT_THAT(RefusalOf(Safetensors(R"({"__metadata__":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234")),
              HasSubstr("__metadata__"));
}

TEST(Safetensors, RefusesMillionsOfTensorsEarly) {
  std::string header = "{";
  for (int i = 0; i < 600000; ++i) {
    header.append("\"").append(std::to_string(i)).append(R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)");
  }
  header.back() = '}';
  EXPECT_THAT(RefusalOf(Safetensors(header, "1")), HasSubstr("500000 tensors"));
}

TEST(Safetensors, RefusesWhatIsNotARegularFile) {
  EXPECT_THROW(SafetensorsFile("/dev/zero"), BadInputError);
  EXPECT_THROW(SafetensorsFile("/"), BadInputError);
  EXPECT_THROW(SafetensorsFile("/nowhere/model.safetensors"), BadInputError);
}

TEST(Safetensors, FileThatIsCutWhileItIsReadIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("x.safetensors", Safetensors(kFour, "1234"));
  const SafetensorsFile file(path);
  std::string data(4, '\0');
  std::filesystem::resize_file(path, 10);
  EXPECT_THROW(file.Read(file.entries()[0], data.data()), BadInputError);
}

class ShardedFolder {
 public:
  explicit ShardedFolder(const std::string& index) {
    folder_.Write("s1.safetensors", Safetensors(kFour, "1234"));
    folder_.Write("model.safetensors.index.json", index);
  }
  std::string Refusal() const {
    try {
      const Checkpoint checkpoint(folder_.path());
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  TemporaryFolder folder_;
};

TEST(Checkpoint, ShardsMustMatchTheirIndex) {
  EXPECT_EQ(ShardedFolder(R"({"weight_map":{"a":"s1.safetensors"}})").Refusal(), "accepted");
  EXPECT_THAT(ShardedFolder(R"({"weight_map":{"a":"s1.safetensors","b":"s1.safetensors"}})").Refusal(),
              HasSubstr("weight_map.b"));
  EXPECT_THAT(ShardedFolder(R"({"weight_map":{"b":"s1.safetensors"}})").Refusal(), HasSubstr("not listed"));
  EXPECT_THAT(ShardedFolder(R"({"weight_map":{"a":"s2.safetensors"}})").Refusal(),
              AllOf(HasSubstr("cannot be opened"), HasSubstr("; fetch the folder again")));
  EXPECT_THAT(ShardedFolder(R"({"weight_map":{"a":"s1.safetensors","a":"s1.safetensors"}})").Refusal(),
              HasSubstr("twice"));
  EXPECT_THAT(ShardedFolder(R"({"weight_map":{}})").Refusal(), HasSubstr("weight_map"));
  EXPECT_THAT(ShardedFolder(R"({})").Refusal(), HasSubstr("weight_map"));
  EXPECT_THAT(ShardedFolder(std::string(100, '[')).Refusal(), HasSubstr("nested"));
}

TEST(Checkpoint, WeightsOfAnotherFormAreNamed) {
  const auto refusal = [](const std::string& name) -> std::string {
    const TemporaryFolder folder;
    if (!name.empty()) folder.Write(name, "x");
    try {
      const Checkpoint checkpoint(folder.path());
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char* name : {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "consolidated.00.pth", "a.gguf"})
    EXPECT_THAT(refusal(name), AllOf(HasSubstr(std::string(name) + ": is "), HasSubstr("headscope.record")));
  EXPECT_THAT(refusal(""), HasSubstr("name a folder with safetensors weights"));
}

// transformers adds it to the weights; the model without it ran in its place.
TEST(Checkpoint, AnAdapterBesideTheWeightsIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::copy(ReferenceModel(), folder.path(), std::filesystem::copy_options::recursive);
  EXPECT_NO_THROW(Checkpoint{folder.path()});
  folder.Write("adapter_config.json", R"({"peft_type":"LORA"})");
  EXPECT_THAT([&] { Checkpoint{folder.path()}; },
              ThrowsMessage<BadInputError>(AllOf(HasSubstr("adapter_config.json: says that"), HasSubstr("merge it"),
                                                 HasSubstr("take that file out"))));
}

TEST(Checkpoint, ShardNamesCannotLeaveTheFolder) {
  for (const std::string name : {"../s1.safetensors", "/etc/s1.safetensors", "a/s1.safetensors", "a\\\\s1.safetensors",
                                 "..safetensors", "s1.bin", ".hidden.safetensors", "s1.safetensors\\u0000"}) {
    EXPECT_THAT(ShardedFolder(std::string(R"({"weight_map":{"a":")").append(name).append("\"}}")).Refusal(),
                HasSubstr("plain name"))
        << name;
  }
}

TEST(Checkpoint, UnreadTensorIsRefused) {
  const TemporaryFolder folder;
  folder.Write("model.safetensors", Safetensors(kFour, "1234"));
  Checkpoint checkpoint(folder.path());
  EXPECT_THROW(checkpoint.RefuseUnread(), BadInputError);
  EXPECT_EQ(checkpoint.Find("b"), nullptr);
  ASSERT_NE(checkpoint.Find("a"), nullptr);
  EXPECT_NO_THROW(checkpoint.RefuseUnread());
}

TEST(Checkpoint, HashIsSha256OfTheShards) {
  const TemporaryFolder folder;
  folder.Write("abc", "abc");
  Sha256 hash;
  hash.Add(InputFile(folder.File("abc")));
  EXPECT_EQ(hash.HexDigest(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-2, example 1
}

}  // namespace
}  // namespace headscope::model
