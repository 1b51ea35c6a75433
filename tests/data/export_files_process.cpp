// SPDX-License-Identifier: Apache-2.0
// Writes the files that tests/oracle reads: data_export_files_process FOLDER.
#include <cmath>
#include <cstdio>

#include "data/results_file.h"
#include "data/trace_export.h"
#include "synthetic_trace.h"

int main(int argc, char** argv) {
  namespace data = headscope::data;
  using headscope::ElementType;
  if (argc != 2) {
    std::fprintf(stderr, "usage: data_export_files_process FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  constexpr ElementType kEncodings[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16};
  for (const ElementType encoding : kEncodings) {
    data::testing::WriteTrace(folder + "/trace" + std::to_string(static_cast<int>(encoding)) + ".h5",
                              data::testing::SmallLayout(encoding, 3000), 2500, 300);
  }
  // Layer 0 has no window, layer 2 one of 64 tokens.
  data::ExportTrace(data::TraceReader(folder + "/trace0.h5"), {.layers = {0, 2}, .first_token = 41, .end_token = 2000},
                    {}, folder + "/cut.h5");
  data::WriteResults(folder + "/results.h5",
                     {{"head", "", std::vector<std::string>{"0:1", "", "9:7 caf\xc3\xa9"}},
                      {"time", "ms", std::vector<double>{1.5, NAN, -0.25}}},
                     {{"model", "synthetic"}});
  return 0;
}
