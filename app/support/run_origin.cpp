// SPDX-License-Identifier: Apache-2.0
#include "support/run_origin.h"

#include <array>
#include <ctime>
#include <filesystem>

#include "base/version.h"

namespace headscope::app {

analysis::RunOrigin OriginOf(const data::TraceReader& trace) {
  analysis::RunOrigin origin;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(trace.path(), error);
  origin.trace = error ? trace.path() : absolute.lexically_normal().string();
  origin.model = trace.layout().model.name;
  origin.version = Version();
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  if (gmtime_r(&now, &utc) != nullptr && std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
    origin.measured_at = text.data();
  return origin;
}

std::string WrittenText(const analysis::RunOrigin& origin) {
  return origin.measured_at.substr(0, origin.measured_at.find('T')) + " by headscope " + origin.version;
}

}  // namespace headscope::app
