// SPDX-License-Identifier: Apache-2.0
// Changes HDF5 files where it hurts: in the structures that the library parses, with their checksums put right, so that
// the change gets past the first line of defence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace headscope::data::testing {

// One structure with a lookup3 checksum: bytes [begin, end), the checksum among them.
struct Hdf5Structure {
  std::string signature;  // "OHDR", "BTHD", ...; "superblock"
  size_t begin = 0;
  size_t end = 0;
  size_t checksum = 0;  // its first byte
};

// Every structure of a valid file, in rising order.
std::vector<Hdf5Structure> FindStructures(const std::string& file);
// Writes the checksum that fits the bytes, where the structure still lies inside the file.
void RepairChecksum(const Hdf5Structure& structure, std::string* file);
// Changes a few bytes or fields of one or two structures and repairs their checksums.
void MutateStructures(const std::vector<Hdf5Structure>& structures, std::mt19937& random, std::string* file);

}  // namespace headscope::data::testing
