// SPDX-License-Identifier: Apache-2.0
// Methods that are made of a file as they are typed: "mask-file:path=FILE" and "duo-attention:path=FILE,k=v"; a kind
// that decodes as well is "decode/duo-attention:path=FILE,k=v" there. FILE may have commas in its name; where what
// follows one has a '=' in it, it stands in quotes: path="FILE", with quotes in the name doubled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headscope::app {

// Whether methods of that name are made of a file.
bool IsFileMethod(std::string_view name);
// Their names, for messages.
std::string FileMethodNames();
// A method with its parameters as ParseMethod takes them: the own name of a file's method becomes NAME:path=FILE.
std::string MethodArgument(const std::string& name, const std::string& parameters);
// `name` is one of theirs. Takes path=FILE out of `parameters` and reads the file; a file that was read before is not
// read again. The result is the method's own name, NAME[FILE], by which FindMethod() finds it from then on. A mask is
// an index file or a FlexAttention block mask in JSON. Throws UsageError, of `field`, where there is no path or no
// decode method of that kind; BadInputError naming file, field and remedy.
std::string MethodOfFile(const std::string& name, std::string* parameters, const std::string& field);

// Whether the method, by its own name, is of a file with a number for each KV head of a model.
bool IsOfModel(const std::string& method);
// The layers of a model, as far as they are known.
struct KnownLayers {
  int32_t num_layers = 0;      // of the model
  int32_t most_kv_heads = 0;   // of a layer that is known
  bool more_possible = false;  // in a layer that is not
};
// Refuses (BadInputError) such a method where its file is of another model than that of `whose`: the file has a line
// for every layer, and in each as many numbers as the largest layer has KV heads. Other methods fit any model.
void CheckIsOfModel(const std::string& method, const std::string& whose, const KnownLayers& layers);

}  // namespace headscope::app
