#include "waiting_threads.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace headscope::app {
namespace {

constexpr std::string_view kCommandsWithAModel[] = {"capture", "demo", "eval"};

}  // namespace

void LetThreadsSleepWhileTheyWait(const char* const* argv) {
  if (argv[0] == nullptr || argv[1] == nullptr) return;
  if (std::ranges::find(kCommandsWithAModel, std::string_view(argv[1])) == std::end(kCommandsWithAModel)) return;
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  // It fails when memory is used up; then threads spin, and the command computes the same.
  ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
}

}  // namespace headscope::app
