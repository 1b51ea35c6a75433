// SPDX-License-Identifier: Apache-2.0
#include "trace/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <new>

#include "base/errors.h"

namespace headscope::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WholeFile : public ::testing::Test {
 protected:
  ~WholeFile() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  // What writing throws, of that type alone.
  template <typename Thrown>
  std::string Refusal(const std::function<void(hid_t)>& write) const {
    try {
      WriteWholeFile(path_, InMemoryAccess(1 << 16), write);
    } catch (const Thrown& error) {
      return error.what();
    }
    return "";
  }

  const Hdf5Lock lock_;
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("whole-file-" + std::to_string(::getpid()) + ".h5")).string();
};

TEST_F(WholeFile, IsThereWhenItWasWritten) {
  WriteWholeFile(path_, InMemoryAccess(1 << 16), [](hid_t) {});
  EXPECT_GT(std::filesystem::file_size(path_), 0U);
  EXPECT_THAT(Refusal<FailedError>([](hid_t) {}),
              AllOf(HasSubstr(path_), HasSubstr("cannot be created"), HasSubstr("; choose a new name")));
}

TEST_F(WholeFile, IsGoneAfterAnErrorWhichKeepsItsType) {
  EXPECT_THAT(Refusal<DeviceError>([](hid_t) { throw DeviceError("there is no memory"); }),
              ::testing::StrEq(path_ + ": there is no memory"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THAT(Refusal<BadInputError>([](hid_t) {
                throw BadInputError({.file = "other.h5", .problem = "it is damaged", .remedy = "write it again"});
              }),
              ::testing::StrEq("other.h5: it is damaged; write it again"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THAT(Refusal<FailedError>([](hid_t) { throw FailedError("writing failed"); }),
              ::testing::StrEq(path_ + ": writing failed; free some disk space or choose another folder"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THAT(Refusal<std::bad_alloc>([](hid_t) { throw std::bad_alloc(); }), ::testing::Not(::testing::IsEmpty()));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace headscope::data
