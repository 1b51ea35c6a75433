// SPDX-License-Identifier: Apache-2.0
#include "data/trace_identity.h"

#include <algorithm>
#include <filesystem>

#include "base/errors.h"
#include "data/trace_reader.h"
#include "trace/trace_set.h"

namespace headscope::data {

std::string FileSetAt(const std::string& path) {
  try {
    return StoredPlace(FirstToOpen(path)).set;
  } catch (const BadInputError&) {
    return "";  // whoever opens it says why
  }
}

bool LeadsTo(const std::string& path, const std::string& set, const TraceReader& trace) {
  const bool same_file = std::ranges::any_of(trace.files(), [&](const std::string& file) {
    std::error_code missing;
    return std::filesystem::equivalent(file, path, missing);
  });
  return same_file || (!set.empty() && set == FileSetAt(trace.path()));
}

}  // namespace headscope::data
