// SPDX-License-Identifier: Apache-2.0
// How headscope fails: one family of exceptions, whose type says what kind of failure it is, and so the exit code.
//
// The sentence is made of parts, "FILE: FIELD VALUE: PROBLEM; REMEDY", so that whoever catches an error can add what is
// known there (which file, what to do) and throw it on as what it is. A library's own exceptions are not of the family:
// where one is expected it is translated where it is caught, and any other is a failure of no kind.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace headscope {

// The parts of an error's sentence. All but `problem` may be empty.
struct Fault {
  std::string file = {};     // as the user named it
  std::string field = {};    // of the file; or what is set by an option or a control of that name, such as "length"
  std::string value = {};    // the field's, as given
  std::string problem = {};  // what is wrong, or what is allowed
  std::string remedy = {};   // what to do
};

// The parts that are there, as one sentence.
std::string SentenceOf(const Fault& fault);

enum class ErrorKind : uint8_t {
  kFailed,     // nobody's input: a disk that is full, a call of the system or of a driver that fails
  kUsage,      // the command line or a setting is wrong: the same files serve another one
  kBadInput,   // a file is not there, is damaged or does not hold what was asked of it
  kDevice,     // no such device, or not enough memory or threads
  kCancelled,  // somebody asked to stop
};

// The root, for those who catch any of the family.
class Error : public std::runtime_error {
 public:
  // A template, so that a list of a fault's parts is never taken for a string's.
  template <std::convertible_to<std::string> Text>
  explicit Error(const Text& problem) : Error(Fault{.problem = problem}) {}
  explicit Error(Fault fault);
  virtual ErrorKind kind() const noexcept = 0;
  const Fault& fault() const noexcept { return fault_; }

  // What a catcher knows better; the sentence follows.
  void SetFile(const std::string& file);
  void SetField(const std::string& field);
  // Behind the remedy that is there.
  void AddRemedy(const std::string& remedy);

 private:
  void Replace(Fault fault);

  Fault fault_;
};

template <ErrorKind kKind>
class ErrorOfKind : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return kKind; }
};

using FailedError = ErrorOfKind<ErrorKind::kFailed>;
using UsageError = ErrorOfKind<ErrorKind::kUsage>;
using BadInputError = ErrorOfKind<ErrorKind::kBadInput>;
using DeviceError = ErrorOfKind<ErrorKind::kDevice>;
using CancelledError = ErrorOfKind<ErrorKind::kCancelled>;

}  // namespace headscope
