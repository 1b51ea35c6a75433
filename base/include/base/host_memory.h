// SPDX-License-Identifier: Apache-2.0
// How much of the machine's memory this process may still take.
#pragma once

#include <cstdint>
#include <string_view>

namespace headscope {

// Bytes: what the system says is available, and no more than what the process's control group has left.
int64_t FreeHostBytes();

// Of the texts of /proc/meminfo and of a control group's memory.max, memory.current and memory.stat; -1
// where they do not say it. Cached pages of files that the group used longest ago count as free.
int64_t AvailableBytes(std::string_view meminfo);
int64_t LeftOfGroup(std::string_view most, std::string_view used, std::string_view stat);

}  // namespace headscope
