// SPDX-License-Identifier: Apache-2.0
// Words that blocks of a launch leave for each other. They need no counter and no fence, each of which is a trip to
// memory: a word says itself that it has arrived, by not being 0, and who has read it puts the 0 back.
#pragma once

#include <cstdint>

namespace headscope::kernels::decode {

// A float's bits, inverted: 0 would be a NaN that arithmetic does not make and that is made another here.
__device__ __forceinline__ uint32_t WordOf(float x) {
  return isnan(x) ? ~0x7fffffffu : ~__float_as_uint(x);
}
__device__ __forceinline__ float FloatOf(uint32_t word) {
  return __uint_as_float(~word);
}

// The same of a key by which tokens are ranked; the largest is a NaN's (OrderKey), as is the next.
__device__ __forceinline__ uint32_t WordOfKey(uint32_t key) {
  return ~min(key, 0xfffffffeu);
}

__device__ __forceinline__ void WriteWords(uint32_t* to, uint32_t word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}
__device__ __forceinline__ void WriteWords(uint2* to, uint2 words) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(words.x), "r"(words.y) : "memory");
}
__device__ __forceinline__ void WriteWords(uint4* to, uint4 words) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

// As far as they have arrived.
__device__ __forceinline__ uint32_t ReadWords(const uint32_t* from) {
  uint32_t word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
__device__ __forceinline__ uint2 ReadWords(const uint2* from) {
  uint2 words;
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "l"(from) : "memory");
  return words;
}
__device__ __forceinline__ uint4 ReadWords(const uint4* from) {
  uint4 words;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from)
               : "memory");
  return words;
}

}  // namespace headscope::kernels::decode
