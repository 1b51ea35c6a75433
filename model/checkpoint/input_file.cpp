// SPDX-License-Identifier: Apache-2.0
#include "model/input_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/stop.h"

namespace headscope::model {

void Refuse(std::string_view file, std::string_view field, std::string_view problem, std::string_view remedy) {
  throw BadInputError({.file = std::string(file),
                       .field = std::string(field),
                       .problem = std::string(problem),
                       .remedy = std::string(remedy)});
}

InputFile::InputFile(std::string path, std::string_view remedy) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe returns at once and is refused below; it changes nothing for regular files.
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    Refuse(path_, "", std::string("cannot be opened (") + std::strerror(errno) + ")", remedy);
  }
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    descriptor_ = -1;
    Refuse(path_, "", "is not a regular file", "name a file, not a folder or a device");
  }
  size_ = status.st_size;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void InputFile::ReadAt(int64_t offset, void* into, int64_t count, const std::stop_token& stop) const {
  constexpr int64_t kMostAtOnce = int64_t{1} << 24;  // between two looks at `stop`
  auto* bytes = static_cast<char*>(into);
  while (count > 0) {
    StopIfAsked(stop);
    const ssize_t got = pread(descriptor_, bytes, static_cast<size_t>(std::min(count, kMostAtOnce)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Refuse(path_, "", std::string("cannot be read (") + std::strerror(errno) + ")", "check the disk");
    if (got == 0) {
      Refuse(path_, "", "ends at byte " + std::to_string(offset) + " although it was longer when it was opened",
             "leave the file alone while it is read");
    }
    bytes += got;
    offset += got;
    count -= got;
  }
}

std::string ReadSmallFile(const std::string& path, int64_t limit, std::string_view remedy) {
  const InputFile file(path, remedy);
  if (file.size() > limit) {
    Refuse(path, "",
           "has " + std::to_string(file.size()) + " bytes, and at most " + std::to_string(limit) +
               " are read of such a file",
           "check that it is the right file");
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.ReadAt(0, text.data(), file.size());
  return text;
}

// Of SHA-256, which libcrypto always has, nothing fails but its memory.
static void RequireDone(int done) {
  if (done != 1) throw std::bad_alloc();
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  if (EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1) return;
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
  throw std::bad_alloc();
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
}

void Sha256::Add(const void* data, size_t count) {
  RequireDone(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, count));
}

void Sha256::Add(const InputFile& file, const std::stop_token& stop) {
  std::vector<char> block(1 << 20);
  for (int64_t at = 0; at < file.size();) {
    const int64_t count = std::min<int64_t>(file.size() - at, static_cast<int64_t>(block.size()));
    file.ReadAt(at, block.data(), count, stop);
    Add(block.data(), static_cast<size_t>(count));
    at += count;
  }
}

std::string Sha256::HexDigest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  RequireDone(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), &size));
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

}  // namespace headscope::model
