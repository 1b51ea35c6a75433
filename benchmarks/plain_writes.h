// SPDX-License-Identifier: Apache-2.0
// What the machine itself writes into files, without a format: what programs that write traces are held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace headscope {

// Bytes of one write, as of a trace's usual chunk.
inline constexpr size_t kPlainBlock = size_t{256} << 10;

// Whole blocks, until there are `bytes` of them, from 8 MiB of memory. `prepare`: what to write in place of each block,
// which may be longer than it; may be empty. Throws FailedError.
using PrepareBlock = std::function<std::span<const char>(std::span<const char> block)>;
void WritePlainly(const std::string& path, int64_t bytes, const PrepareBlock& prepare = {});

// work(0) to work(count - 1), by a thread each. Throws what one of them throws.
void InThreads(int count, const std::function<void(int number)>& work);

}  // namespace headscope
