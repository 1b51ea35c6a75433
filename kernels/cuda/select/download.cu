// DownloadIndex: lists lie far apart in their slots, so they are pushed together on the device and copied once.
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "cuda_error.h"
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

struct FreeOnDevice {
  void* data = nullptr;
  FreeOnDevice() = default;
  FreeOnDevice(const FreeOnDevice&) = delete;
  FreeOnDevice& operator=(const FreeOnDevice&) = delete;
  ~FreeOnDevice() { cudaFree(data); }
};

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
    FreeOnDevice offsets;
    FreeOnDevice entries;
    const size_t bytes = static_cast<size_t>(total) * sizeof(Entry);
    if (!Check(cudaMalloc(&offsets.data, begin.size() * sizeof(int64_t))) || !Check(cudaMalloc(&entries.data, bytes)) ||
        !Check(cudaMemcpyAsync(offsets.data, begin.data(), begin.size() * sizeof(int64_t), cudaMemcpyHostToDevice,
                               stream_))) {
      return false;
    }
    GatherListsKernel<<<static_cast<unsigned>(begin.size()), kThreads, 0, stream_>>>(
        from, device_begin, device_count, static_cast<const int64_t*>(offsets.data), static_cast<Entry*>(entries.data));
    return Check(cudaGetLastError()) && Copy(static_cast<const Entry*>(entries.data), static_cast<size_t>(total), to);
  }

  Status status() const { return CudaStatus(error_, "downloading a sparse index"); }

 private:
  bool Check(cudaError_t error) {
    error_ = error;
    return error == cudaSuccess;
  }

  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

Status DownloadIndex(const SparseIndexView& device_index, SparseIndex* host_index, void* stream) {
  if (host_index == nullptr) return {StatusCode::kInvalidArgument, "DownloadIndex: host_index is null."};
  if (device_index.run_begin == nullptr || device_index.run_count == nullptr || device_index.column_begin == nullptr ||
      device_index.column_count == nullptr) {
    return {StatusCode::kInvalidArgument,
            "DownloadIndex: run_begin, run_count, column_begin or column_count is null: the index was not made."};
  }
  SparseIndex index;
  index.batch = device_index.batch;
  index.num_qo_heads = device_index.num_qo_heads;
  index.seq_q = device_index.seq_q;
  index.seq_k = device_index.seq_k;
  index.first_position = device_index.first_position;
  index.tile_rows = device_index.tile_rows;
  index.rule = device_index.rule;
  const auto num_lists = static_cast<size_t>(device_index.NumLists());
  Downloader downloader(static_cast<cudaStream_t>(stream));
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

}  // namespace headscope::kernels
