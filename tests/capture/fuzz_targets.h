// One entry per untrusted format, in libFuzzer's shape. Each takes any bytes; anything but success or BadInputError is
// a defect.
//
// To fuzz by hand: clang++ -fsanitize=fuzzer,address with -DHEADSCOPE_FUZZ=FuzzSafetensors (or another) compiles
// fuzz_targets.cpp into a fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headscope::capture {

int FuzzSafetensors(const uint8_t* data, size_t size);  // a header; the data size is taken from the first eight bytes
int FuzzConfig(const uint8_t* data, size_t size);
int FuzzTokenizer(const uint8_t* data, size_t size);

}  // namespace headscope::capture
