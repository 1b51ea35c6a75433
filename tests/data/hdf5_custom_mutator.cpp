// SPDX-License-Identifier: Apache-2.0
// How libFuzzer changes HDF5 files: half of the time inside the structures that the library parses, with the checksums
// put right.
#include <map>
#include <random>
#include <string>

#include "hdf5_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using headscope::data::testing::FindStructures;
  using headscope::data::testing::Hdf5Structure;
  // Looking for structures takes long, and files of one length mostly come from one seed.
  static std::map<size_t, std::vector<Hdf5Structure>> known;
  std::mt19937 random(seed);
  std::string file(reinterpret_cast<const char*>(data), size);
  auto found = known.find(size);
  if (found == known.end() && known.size() < 64) found = known.emplace(size, FindStructures(file)).first;
  if (found == known.end() || found->second.empty() || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  headscope::data::testing::MutateStructures(found->second, random, &file);
  file.copy(reinterpret_cast<char*>(data), size);
  return size;
}
