// Vertical-slash's lists from its line bitmaps.
#include "select/list_writer.cuh"
#include "select/top_lines.h"

namespace headscope::kernels::selection {
namespace {

// Bit i: some line of the 64 from i on is set, lines 0 .. 63 in `low`, 64 .. 127 in `high`.
__device__ uint64_t AnyOfNext64(uint64_t low, uint64_t high) {
  const uint64_t from_low = low == 0 ? 0 : ~uint64_t{0} >> __clzll(static_cast<long long>(low));
  const uint64_t from_high = high == 0 ? 0 : (~uint64_t{0} << (__ffsll(static_cast<long long>(high)) - 1)) << 1;
  return from_low | from_high;
}

// Rows from position p on keep column x for a slash o when 0 <= x - (p - o) < 64, so when some o of the 64 from p - x
// on is chosen. p - x falls as x rises: the windows are read forwards and turned round.
struct LineSource {
  static constexpr int kUnitShift = 0;
  LineLists lists;

  struct Units {
    const uint64_t* columns;
    const uint64_t* slashes;
    int32_t position;

    __device__ KeptUnits operator()(int32_t word) const {
      const int32_t bit = position - 64 * word - 63 + 64 * kBitmapFront;
      const uint64_t* const from = slashes + bit / 64;
      const uint64_t w[4] = {from[0], from[1], from[2], from[3]};
      const uint64_t first = FunnelShift(w[0], w[1], bit % 64);
      const uint64_t second = FunnelShift(w[1], w[2], bit % 64);
      const uint64_t third = FunnelShift(w[2], w[3], bit % 64);
      return {__brevll(AnyOfNext64(first, second)), __brevll(AnyOfNext64(second, third)), columns[kBitmapFront + word]};
    }
  };

  __device__ Units Open(const ListShape&, int64_t head, int32_t, TilePositions rows) const {
    const uint64_t* const bitmaps = lists.bitmaps + head * 2 * lists.words;
    return {bitmaps, bitmaps + lists.words, rows.first};
  }
};

}  // namespace

cudaError_t LaunchLineLists(const LineLists& lists, const ListShape& shape, const ListArrays& arrays,
                            cudaStream_t stream) {
  return LaunchWriteLists(LineSource{lists}, shape, arrays, stream);
}

}  // namespace headscope::kernels::selection
