// SPDX-License-Identifier: Apache-2.0
#include "manifest_fuzz.h"

#include "base/errors.h"
#include "manifest.h"
#include "support/require.h"

namespace headscope::capture {
namespace {

using testing::Require;
using testing::RequireOneSentence;

Manifest New() {
  return {"fuzz", {{"schema", kManifestSchema}, {"prompts", {{"file", "p"}}}, {"model", {}}, {"options", {}}}};
}

}  // namespace

int FuzzManifest(const uint8_t* data, size_t size) {
  Manifest manifest = New();
  try {
    manifest.GoOnWith({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {  // damaged, or of another run
    RequireOneSentence(error.what());
    return 1;
  }
  PromptLine prompt;
  prompt.line = 2;
  manifest.Has(prompt, {"/proc/self/status"});
  Manifest again = New();
  const std::string text = manifest.Text();
  again.GoOnWith(text);
  Require(again.Text() == text, "another manifest than was written");
  return 0;
}

}  // namespace headscope::capture

#ifdef HEADSCOPE_FUZZ_MANIFEST
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headscope::capture::FuzzManifest(data, size);
  return 0;
}
#endif
