// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace headscope {

// What every row of a CSV table says of where it is from, behind the table's own columns: the header's end and a row's,
// each with its leading comma (",trace,model", ",/traces/a.h5,tiny"). Empty: nothing. app/support/run_origin.h makes
// it.
struct CsvOrigin {
  std::string names, cells;
};

// The same as names and texts: of a JSON document, the members of its object `origin`. None: there is no such object.
using OriginTexts = std::vector<std::pair<std::string, std::string>>;

}  // namespace headscope
