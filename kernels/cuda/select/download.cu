// SPDX-License-Identifier: Apache-2.0
// DownloadIndex: lists lie far apart in their slots, so they are pushed together on the device and copied once.
#include <cuda_runtime.h>

#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda_resources.h"
#include "kernels/cuda_select.h"

namespace headscope::kernels {
namespace {

constexpr int kThreads = 128;

// A block per list.
template <typename Entry>
__global__ void __launch_bounds__(kThreads)
    GatherListsKernel(const Entry* from, const int64_t* from_begin, const int32_t* count, const int64_t* to_begin,
                      Entry* to) {
  const int64_t list = blockIdx.x;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count[list]; i += kThreads) {
    to[to_begin[list] + i] = from[from_begin[list] + i];
  }
}

// Offsets of lists without gaps; *total is their sum.
std::vector<int64_t> Offsets(const std::vector<int32_t>& counts, int64_t* total) {
  std::vector<int64_t> begin;
  begin.reserve(counts.size());
  *total = 0;
  for (const int32_t count : counts) {
    begin.push_back(*total);
    *total += count;
  }
  return begin;
}

class Downloader {
 public:
  explicit Downloader(cudaStream_t stream) : stream_(stream) {}

  template <typename T>
  bool Copy(const T* from, size_t count, std::vector<T>* to) {
    to->resize(count);
    return count == 0 || Check(cudaMemcpyAsync(to->data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, stream_)) &&
                             Check(cudaStreamSynchronize(stream_));
  }

  template <typename Entry>
  bool CopyLists(const Entry* from, const int64_t* device_begin, const int32_t* device_count,
                 const std::vector<int64_t>& begin, int64_t total, std::vector<Entry>* to) {
    if (total == 0) {
      to->clear();
      return true;
    }
    DeviceMemory offsets;
    DeviceMemory entries;
    const auto offset_bytes = static_cast<int64_t>(begin.size() * sizeof(int64_t));
    if (!Check(AllocateOnDevice(offset_bytes, "a sparse index's offsets", &offsets)) ||
        !Check(AllocateOnDevice(total * static_cast<int64_t>(sizeof(Entry)), "a sparse index's lists", &entries)) ||
        !Check(cudaMemcpyAsync(offsets.get(), begin.data(), static_cast<size_t>(offset_bytes), cudaMemcpyHostToDevice,
                               stream_))) {
      return false;
    }
    GatherListsKernel<<<static_cast<unsigned>(begin.size()), kThreads, 0, stream_>>>(
        from, device_begin, device_count, static_cast<const int64_t*>(offsets.get()),
        static_cast<Entry*>(entries.get()));
    return Check(cudaGetLastError()) && Copy(static_cast<const Entry*>(entries.get()), static_cast<size_t>(total), to);
  }

  const Status& status() const { return status_; }

 private:
  bool Check(Status status) {
    static_cast<void>(status_ = std::move(status));  // nvcc takes the assignment's own result for a status that is lost
    return status_.ok();
  }
  bool Check(cudaError_t error) { return Check(CudaStatus(error, "downloading a sparse index")); }

  cudaStream_t stream_;
  Status status_;
};

Status CheckShape(const SparseIndexView& index) {
  struct Field {
    const char* name;
    int32_t value;
  };
  for (const auto& [name, value] : {Field{"batch", index.batch}, Field{"num_qo_heads", index.num_qo_heads},
                                    Field{"seq_q", index.seq_q}, Field{"seq_k", index.seq_k}}) {
    // The last tile's end must be a number too.
    constexpr int32_t kMost = std::numeric_limits<int32_t>::max() - 127;
    if (value >= 1 && value <= kMost) continue;
    return {StatusCode::kInvalidArgument, std::string("DownloadIndex: ") + name + " is " + std::to_string(value) +
                                              ": must lie between 1 and " + std::to_string(kMost) + "."};
  }
  if (index.tile_rows != 64 && index.tile_rows != 128) {
    return {StatusCode::kInvalidArgument,
            "DownloadIndex: tile_rows is " + std::to_string(index.tile_rows) + ": must be 64 or 128."};
  }
  // One block of a launch per list.
  const int64_t heads = int64_t{index.batch} * index.num_qo_heads;
  const int64_t most = std::numeric_limits<int32_t>::max() / int64_t{index.NumRowTiles()};
  if (heads <= most) return {};
  return {StatusCode::kUnsupported, "DownloadIndex: batch times num_qo_heads is " + std::to_string(heads) +
                                        ": it takes " + std::to_string(most) + " heads of " +
                                        std::to_string(index.NumRowTiles()) + " row tiles at a time."};
}

Status Download(const SparseIndexView& device_index, SparseIndex* host_index, cudaStream_t stream) {
  SparseIndex index;
  index.batch = device_index.batch;
  index.num_qo_heads = device_index.num_qo_heads;
  index.seq_q = device_index.seq_q;
  index.seq_k = device_index.seq_k;
  index.first_position = device_index.first_position;
  index.tile_rows = device_index.tile_rows;
  index.rule = device_index.rule;
  const auto num_lists = static_cast<size_t>(device_index.NumLists());
  Downloader downloader(stream);
  int64_t num_runs = 0;
  int64_t num_columns = 0;
  if (!downloader.Copy(device_index.run_count, num_lists, &index.run_count) ||
      !downloader.Copy(device_index.column_count, num_lists, &index.column_count)) {
    return downloader.status();
  }
  index.run_begin = Offsets(index.run_count, &num_runs);
  index.column_begin = Offsets(index.column_count, &num_columns);
  if (!downloader.CopyLists(device_index.runs, device_index.run_begin, device_index.run_count, index.run_begin,
                            num_runs, &index.runs) ||
      !downloader.CopyLists(device_index.columns, device_index.column_begin, device_index.column_count,
                            index.column_begin, num_columns, &index.columns)) {
    return downloader.status();
  }
  *host_index = std::move(index);
  return {};
}

}  // namespace

Status DownloadIndex(const SparseIndexView& device_index, SparseIndex* host_index, void* stream) {
  if (host_index == nullptr) return {StatusCode::kInvalidArgument, "DownloadIndex: host_index is null."};
  if (device_index.run_begin == nullptr || device_index.run_count == nullptr || device_index.column_begin == nullptr ||
      device_index.column_count == nullptr) {
    return {StatusCode::kInvalidArgument,
            "DownloadIndex: run_begin, run_count, column_begin or column_count is null: the index was not made."};
  }
  if (Status status = CheckShape(device_index); !status.ok()) return status;
  // Vectors throw where the kernels room promises a status.
  try {
    return Download(device_index, host_index, static_cast<cudaStream_t>(stream));
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return {StatusCode::kOutOfMemory, "DownloadIndex: host memory for the index is not to be had: its " +
                                        std::to_string(device_index.NumLists()) +
                                        " lists are too many or hold too much; select fewer heads at a time."};
}

}  // namespace headscope::kernels
