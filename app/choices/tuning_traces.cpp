// SPDX-License-Identifier: Apache-2.0
#include "choices/tuning_traces.h"

#include "base/errors.h"
#include "choices/head_results.h"
#include "data/row_positions.h"

namespace headscope::app {

void CheckTunedTogether(const data::TraceReader& trace, const data::TraceReader& first) {
  CheckQueryRows(trace);
  if (!data::RowsContiguous(trace.row_positions()))
    throw BadInputError({.file = trace.path(),
                         .problem = "its query rows have gaps",
                         .remedy = "capture all rows, or the last ones, again"});
  const data::ModelInfo &model = trace.layout().model, &expected = first.layout().model;
  if (model.weights_sha256 == expected.weights_sha256 && model.num_layers == expected.num_layers &&
      model.num_qo_heads == expected.num_qo_heads && model.head_dim == expected.head_dim)
    return;
  throw UsageError(trace.path() + " was captured from a different model (" + model.name + ") than " + first.path() +
                   " (" + expected.name + "); tune them separately");
}

}  // namespace headscope::app
