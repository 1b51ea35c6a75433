// SPDX-License-Identifier: Apache-2.0
// The CUDA calls of a build without CUDA: each says so.
#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_selection.h"
#include "kernels/cuda_devices.h"
#include "kernels/cuda_executor.h"
#include "kernels/cuda_fp8.h"
#include "kernels/cuda_packed.h"
#include "kernels/cuda_prompt_votes.h"
#include "kernels/cuda_quest.h"
#include "kernels/cuda_select.h"
#include "kernels/cuda_statistics.h"
#include "kernels/cuda_tokens.h"

namespace headscope::kernels {
namespace {

Status NoCuda() {
  return {StatusCode::kDeviceMissing,
          "This build has no CUDA kernels: configure with nvcc 13 and the nvidia-cutlass package installed "
          "(scripts/install-deps), or run on the CPU."};
}

}  // namespace

Status QueryCudaDevice(int32_t, CudaDeviceInfo*) {
  return NoCuda();
}
Status UseCudaDevice(int32_t) {
  return NoCuda();
}
Status CudaDeviceScope::Enter(int32_t) {
  return NoCuda();
}
CudaDeviceScope::~CudaDeviceScope() = default;
Status NameOfCudaDevice(std::string*, int32_t*) {
  return NoCuda();
}
Status ChooseCudaKernel(const AttentionProblem&, const SparseIndexView&, const AttentionOutput&, CudaKernelChoice*) {
  return NoCuda();
}
Status AttendCuda(const AttentionProblem&, const SparseIndexView&, const AttentionOutput&, void*) {
  return NoCuda();
}
Status AttendPackedCuda(const AttentionProblem&, const PackedSequences&, const SparseIndexView&, const AttentionOutput&,
                        void*) {
  return NoCuda();
}
Status LayOutFp8(const AttentionProblem&, Fp8Layout*) {
  return NoCuda();
}
Status QuantiseFp8Cuda(const AttentionProblem&, void*, size_t, void*) {
  return NoCuda();
}
Status AttendFp8Cuda(const AttentionProblem&, const void*, size_t, const SparseIndexView&, const AttentionOutput&,
                     void*) {
  return NoCuda();
}
Status AttendTokensCuda(const TokenAttention&, void*) {
  return NoCuda();
}
Status AttendCudaSimple(const AttentionProblem&, const SparseIndexView&, const AttentionOutput&, void*) {
  return NoCuda();
}
Status UploadIndex(const SparseIndexView&, CudaIndexBuffers*) {
  return NoCuda();
}
void FreeDevice::operator()(void*) const {}
size_t DecodeWorkspaceBytes(const AttentionProblem&, const SparqCudaOptions&) {
  return 0;
}
Status DecodeDenseCuda(const AttentionProblem&, const AttentionOutput&, void*, size_t, void*) {
  return NoCuda();
}
Status DecodeSparqCuda(const AttentionProblem&, const SparqCudaOptions&, const TransposedKeys&, const float*,
                       const AttentionOutput&, int32_t*, void*, size_t, void*) {
  return NoCuda();
}
Status AppendTokenCuda(const AttentionProblem&, const TransposedKeys&, float*, void*) {
  return NoCuda();
}
size_t UpdateSparqWorkspaceBytes(const AttentionProblem&) {
  return 0;
}
Status UpdateSparqCuda(const AttentionProblem&, int32_t, const TransposedKeys&, float*, void*, size_t, void*) {
  return NoCuda();
}
Status UploadSelection(const AttentionProblem&, const DecodeSelection&, CudaSelectionBuffers*) {
  return NoCuda();
}
size_t SelectionWorkspaceBytes(const AttentionProblem&, const CudaSelection&) {
  return 0;
}
Status AttendSelectionCuda(const AttentionProblem&, const CudaSelection&, const AttentionOutput&, void*, size_t,
                           void*) {
  return NoCuda();
}
Status UpdatePageBoundsCuda(const AttentionProblem&, int32_t, int32_t, const CudaPageBounds&, void*) {
  return NoCuda();
}
size_t QuestWorkspaceBytes(const AttentionProblem&, const QuestCudaOptions&) {
  return 0;
}
Status DecodeQuestCuda(const AttentionProblem&, const QuestCudaOptions&, const CudaPageBounds&, const AttentionOutput&,
                       int32_t*, void*, size_t, void*) {
  return NoCuda();
}
size_t PromptVotesWorkspaceBytes(const AttentionProblem&, const PromptVotes&) {
  return 0;
}
Status KeepByPromptVotesCuda(const AttentionProblem&, const PromptVotes&, const float*, int32_t*, void*, size_t,
                             void*) {
  return NoCuda();
}
Status SelectCudaBufferSizes(const CudaSelector&, const AttentionProblem&, const ParameterValues&, CudaSelectSizes*) {
  return NoCuda();
}
Status SelectCuda(const CudaSelector&, const AttentionProblem&, const ParameterValues&, const CudaSelectBuffers&,
                  SparseIndexView*, void*) {
  return NoCuda();
}
Status DownloadIndex(const SparseIndexView&, SparseIndex*, void*) {
  return NoCuda();
}

Status RowLseCuda(const AttentionProblem&, int32_t, float*, void*) {
  return NoCuda();
}
Status KeptMassCuda(const AttentionProblem&, int32_t, const float*, const SparseIndexView&, float*, void*) {
  return NoCuda();
}
Status LineMassCuda(const AttentionProblem&, int32_t, const float*, const LineOptions&, double*, double*, void*) {
  return NoCuda();
}
Status TopMassWorkspaceBytes(const AttentionProblem&, int64_t*) {
  return NoCuda();
}
Status TopMassCuda(const AttentionProblem&, int32_t, const float*, float*, void*, int64_t, void*) {
  return NoCuda();
}
Status TexelsCuda(const AttentionProblem&, int32_t, const float*, const TexelRequest&, float*, void*) {
  return NoCuda();
}

// Never made: Create refuses.
struct CudaScores::Impl {};
CudaScores::~CudaScores() = default;
Status CudaScores::Create(const AttentionProblem&, int32_t, const float*, std::unique_ptr<CudaScores>*) {
  return NoCuda();
}
Status CudaScores::RowLse(float*) const {
  return NoCuda();
}
Status CudaScores::KeptMass(const SparseIndexView&, float*) const {
  return NoCuda();
}
Status CudaScores::LineMass(const LineOptions&, double*, double*) const {
  return NoCuda();
}
Status CudaScores::TopMass(float*) const {
  return NoCuda();
}
Status CudaScores::Texels(const TexelRequest&, float*) const {
  return NoCuda();
}
Status CudaScores::TexelsBetween(TexelValue, const std::vector<int64_t>&, const std::vector<int64_t>&, double*) const {
  return NoCuda();
}
Status CudaScores::RowNumbers(const RowNumbersRequest&, kernels::RowNumbers*) const {
  return NoCuda();
}

}  // namespace headscope::kernels
