// SPDX-License-Identifier: Apache-2.0
// Small files that are written in one go, or not at all.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "trace/hdf5_handle.h"

namespace headscope::data {

// File access that lays the file out in memory, which grows by `increment` bytes, and writes it by one flush: a full
// disk then shows as one failed call, with nothing half open.
PropertyHandle InMemoryAccess(size_t increment);

// Creates `path`, lets `write` fill it and writes it out. On failure the file is removed. The caller holds the
// Hdf5Lock. Throws FailedError: the name is taken or its folder cannot be written, the disk is full; and what `write`
// throws, as it is, with the file's name.
void WriteWholeFile(const std::string& path, const PropertyHandle& access, const std::function<void(hid_t)>& write);

}  // namespace headscope::data
