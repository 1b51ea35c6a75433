// SPDX-License-Identifier: Apache-2.0
#include "hdf5_mutator.h"

#include <algorithm>
#include <cstring>

namespace headscope::data::testing {
namespace {

constexpr size_t kChecksumBytes = 4;

// Bob Jenkins' lookup3, byte by byte: HDF5's checksum of metadata. Bytes [skip, skip + 4) count as zeros.
uint32_t Lookup3(const char* data, size_t length, size_t skip = ~size_t{0}) {
  const auto at = [&](size_t i) -> uint32_t {
    return i >= skip && i < skip + kChecksumBytes ? 0 : static_cast<unsigned char>(data[i]);
  };
  const auto word = [&](size_t i, size_t bytes) {
    uint32_t value = 0;
    for (size_t k = 0; k < bytes; ++k) value |= at(i + k) << (8 * k);
    return value;
  };
  const auto rotate = [](uint32_t x, int by) { return x << by | x >> (32 - by); };
  uint32_t a = 0xdeadbeef + static_cast<uint32_t>(length), b = a, c = a;
  size_t i = 0;
  for (; length - i > 12; i += 12) {
    a += word(i, 4);
    b += word(i + 4, 4);
    c += word(i + 8, 4);
    a -= c, a ^= rotate(c, 4), c += b;
    b -= a, b ^= rotate(a, 6), a += c;
    c -= b, c ^= rotate(b, 8), b += a;
    a -= c, a ^= rotate(c, 16), c += b;
    b -= a, b ^= rotate(a, 19), a += c;
    c -= b, c ^= rotate(b, 4), b += a;
  }
  const size_t left = length - i;
  if (left == 0) return c;
  a += word(i, std::min<size_t>(left, 4));
  if (left > 4) b += word(i + 4, std::min<size_t>(left - 4, 4));
  if (left > 8) c += word(i + 8, left - 8);
  c ^= b, c -= rotate(b, 14);
  a ^= c, a -= rotate(c, 11);
  b ^= a, b -= rotate(a, 25);
  c ^= b, c -= rotate(b, 16);
  a ^= c, a -= rotate(c, 4);
  b ^= a, b -= rotate(a, 14);
  c ^= b, c -= rotate(b, 24);
  return c;
}

uint32_t Stored(const std::string& file, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

// A direct block of a fractal heap has its checksum behind its header, counted as zeros, and takes a power of two.
bool FindHeapBlock(const std::string& file, size_t begin, Hdf5Structure* found) {
  for (size_t size = 512; size <= 65536 && begin + size <= file.size(); size *= 2) {
    for (size_t checksum = 14; checksum <= 21; ++checksum) {
      if (Lookup3(file.data() + begin, size, checksum) == Stored(file, begin + checksum)) {
        *found = {"FHDB", begin, begin + size, begin + checksum};
        return true;
      }
    }
  }
  return false;
}

// All others end with theirs, so that the length is the one whose checksum fits.
bool FindLength(const std::string& file, const std::string& signature, size_t begin, Hdf5Structure* found) {
  constexpr size_t kLongest = 1024;  // in the small files that are changed; trying a length costs as many steps
  for (size_t length = 8; length <= kLongest && begin + length + kChecksumBytes <= file.size(); ++length) {
    if (Lookup3(file.data() + begin, length) == Stored(file, begin + length)) {
      *found = {signature, begin, begin + length + kChecksumBytes, begin + length};
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Hdf5Structure> FindStructures(const std::string& file) {
  std::vector<Hdf5Structure> structures;
  Hdf5Structure found;
  if (FindLength(file, "superblock", 0, &found)) structures.push_back(found);
  for (const char* signature : {"OHDR", "OCHK", "FRHP", "FHIB", "BTHD", "BTLF", "BTIN", "EAHD", "EAIB", "EASB", "EADB",
                                "FAHD", "FADB", "FSHD", "FSSE"}) {
    for (size_t at = 0; (at = file.find(signature, at)) != std::string::npos; ++at) {
      if (FindLength(file, signature, at, &found)) structures.push_back(found);
    }
  }
  for (size_t at = 0; (at = file.find("FHDB", at)) != std::string::npos; ++at) {
    if (FindHeapBlock(file, at, &found)) structures.push_back(found);
  }
  std::sort(structures.begin(), structures.end(),
            [](const Hdf5Structure& a, const Hdf5Structure& b) { return a.begin < b.begin; });
  return structures;
}

void RepairChecksum(const Hdf5Structure& structure, std::string* file) {
  if (structure.end > file->size()) return;
  const bool heap_block = structure.signature == "FHDB";
  const size_t length = heap_block ? structure.end - structure.begin : structure.checksum - structure.begin;
  const uint32_t checksum =
      Lookup3(file->data() + structure.begin, length, heap_block ? structure.checksum - structure.begin : ~size_t{0});
  std::memcpy(file->data() + structure.checksum, &checksum, sizeof checksum);
}

void MutateStructures(const std::vector<Hdf5Structure>& structures, std::mt19937& random, std::string* file) {
  const auto below = [&](size_t limit) { return static_cast<size_t>(random()) % limit; };
  const size_t rounds = below(4) == 0 ? 2 : 1;
  for (size_t round = 0; round < rounds; ++round) {
    const Hdf5Structure& structure = structures[below(structures.size())];
    if (structure.end > file->size()) continue;
    const size_t bytes = structure.end - structure.begin;
    for (size_t change = 1 + below(3); change > 0; --change) {
      const size_t at = structure.begin + below(bytes);
      switch (below(4)) {
        case 0:
          (*file)[at] = static_cast<char>(random());
          break;
        case 1:
          (*file)[at] = static_cast<char>((*file)[at] ^ (1 << below(8)));
          break;
        case 2:
          (*file)[at] = below(2) == 0 ? '\0' : '\xff';
          break;
        default: {  // a field of 2, 4 or 8 bytes: extremes, powers of two and places in the file
          const uint64_t choices[] = {0,
                                      ~uint64_t{0},
                                      uint64_t{1} << below(64),
                                      below(1 << 16),
                                      file->size() - below(64),
                                      structures[below(structures.size())].begin};
          const uint64_t value = choices[below(std::size(choices))];
          const size_t width = std::min<size_t>(size_t{2} << below(3), structure.end - at);
          std::memcpy(file->data() + at, &value, width);
        }
      }
    }
    RepairChecksum(structure, file);
  }
}

}  // namespace headscope::data::testing
