// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "base/csv_origin.h"

namespace headscope::data {

// The object `origin` of a JSON document: where what it holds is from.
inline nlohmann::ordered_json OriginJson(const OriginTexts& origin) {
  nlohmann::ordered_json json;
  for (const auto& [name, text] : origin) json[name] = text;
  return json;
}

}  // namespace headscope::data
