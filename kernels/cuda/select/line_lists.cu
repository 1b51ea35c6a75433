// Vertical-slash's lists from its line bitmaps.
#include "select/list_writer.cuh"
#include "select/top_lines.h"

namespace headscope::kernels::selection {
namespace {

struct LineSource {
  static constexpr int kUnitShift = 0;
  LineLists lists;

  struct Units {
    const uint64_t* columns;
    const uint64_t* windows;  // of the upper half; the lower half's are one word behind

    __device__ KeptUnits operator()(int32_t word) const { return {windows[word], windows[word - 1], columns[word]}; }
  };

  __device__ Units Open(const ListShape&, int64_t head, int32_t, TilePositions rows) const {
    return {lists.bitmaps + head * 2 * lists.words + kBitmapFront,
            lists.windows + head * WindowWords(lists.top_position) + (lists.top_position - rows.first) / 64};
  }
};

}  // namespace

cudaError_t LaunchLineLists(const LineLists& lists, const ListShape& shape, const ListArrays& arrays,
                            cudaStream_t stream) {
  return LaunchWriteLists(LineSource{lists}, shape, arrays, stream);
}

}  // namespace headscope::kernels::selection
