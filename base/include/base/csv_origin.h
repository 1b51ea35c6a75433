// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace headscope {

// What every row of a CSV table says of where it is from, behind the table's own columns: the header's end and a row's,
// each with its leading comma (",trace,model", ",/traces/a.h5,tiny"). Empty: nothing. app/support/run_origin.h makes
// it.
struct CsvOrigin {
  std::string names, cells;
};

}  // namespace headscope
