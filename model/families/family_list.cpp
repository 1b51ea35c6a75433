// SPDX-License-Identifier: Apache-2.0
#include "families/family_list.h"

#include <string>
#include <vector>

#include "model/model_types.h"

namespace headscope::model {

std::span<const Family* const> Families() {
#define HEADSCOPE_ADDRESS(name) &name(),
  static const std::vector<const Family*> families = {HEADSCOPE_FAMILIES(HEADSCOPE_ADDRESS)};
#undef HEADSCOPE_ADDRESS
  return families;
}

const Family* FindFamily(std::string_view model_type) {
  for (const Family* family : Families()) {
    if (family->model_type == model_type) return family;
  }
  return nullptr;
}

std::string KnownModelTypes() {
  std::string names;
  for (const Family* family : Families()) {
    names += (names.empty() ? "" : ", ") + std::string(family->model_type);
  }
  return names;
}

}  // namespace headscope::model
