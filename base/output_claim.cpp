// SPDX-License-Identifier: Apache-2.0
#include "base/output_claim.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "base/errors.h"

namespace headscope {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

// In the name space without files, which begins with a zero byte. Empty when there is no such folder.
Address AddressOf(const std::filesystem::path& path, const std::string& what) {
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  struct stat status {};
  Address address;
  if (::stat(folder.c_str(), &status) != 0) return address;
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char letter : path.filename().string()) hash = (hash ^ static_cast<uint8_t>(letter)) * 1099511628211U;
  std::string name(1, '\0');
  name += "headscope-" + what + "-" + std::to_string(::getuid()) + "-" + std::to_string(status.st_dev) + "-" +
          std::to_string(status.st_ino) + "-" + std::to_string(hash);
  address.name.sun_family = AF_UNIX;
  std::memcpy(static_cast<char*>(address.name.sun_path), name.data(), name.size());  // 108 bytes: a word, four numbers
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return address;
}

int Open() {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// "process 1234", as the system knows it; the claim of another user counts for nothing.
std::string Holder(const Address& address) {
  std::string holder = "another process";
  const int socket = Open();
  if (socket < 0) return holder;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address.name), address.size) == 0) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
      holder = peer.uid == ::getuid() ? "process " + std::to_string(peer.pid) : "";
    }
  }
  ::close(socket);
  return holder;
}

}  // namespace

OutputClaim::OutputClaim(const std::string& path, const std::string& what) {
  const Address address = AddressOf(path, what);
  if (address.size == 0) return;
  socket_ = Open();
  if (socket_ < 0) return;
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address.name), address.size) == 0) {
    ::listen(socket_, 16);
    return;
  }
  const bool taken = errno == EADDRINUSE;
  ::close(socket_);
  socket_ = -1;
  const std::string holder = taken ? Holder(address) : "";
  if (holder.empty()) return;
  throw UsageError({.field = "output",
                    .value = path,
                    .problem = "a " + what + " to it is running (" + holder + ")",
                    .remedy = "wait for its end, interrupt it or choose another name"});
}

OutputClaim::~OutputClaim() {
  if (socket_ >= 0) ::close(socket_);
}

}  // namespace headscope
