// SPDX-License-Identifier: Apache-2.0
#include "network/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/device.h"
#include "base/errors.h"
#include "network/row_blocks.h"
#include "network/torch_runtime.h"

namespace headscope::model {
namespace {

// LibTorch's fused kernels take [batch, head, row, head_dim] with as many key heads as query heads. A KV head plays the
// batch and the query heads that share it play the heads, whose keys are then one tensor seen with stride 0.
// `bias` [rows, keys], added to the scores, or undefined. K and V have one size, of which a GPU takes multiples of 8.
AttentionResult AttendBlock(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale, bool causal,
                            const at::Tensor& bias = {}) {
  const int64_t kv_heads = k.size(0);
  const int64_t group = q.size(0) / kv_heads;
  const at::Tensor grouped = q.view({kv_heads, group, q.size(1), q.size(2)});
  const auto shared = [&](const at::Tensor& t) {
    return t.unsqueeze(1).expand({kv_heads, group, t.size(1), t.size(2)});
  };
  std::optional<at::Tensor> added;
  if (bias.defined()) added = bias.expand({kv_heads, group, q.size(1), k.size(1)});
  at::Tensor output;
  at::Tensor lse;
  if (q.is_cuda()) {
    auto [o, l, seed, offset] = at::_scaled_dot_product_efficient_attention(
        grouped, shared(k), shared(v), added, /*compute_log_sumexp=*/true, 0.0, causal, scale);
    output = o;
    lse = l.narrow(-1, 0, q.size(1));  // the kernel pads its rows
  } else {
    std::tie(output, lse) =
        at::_scaled_dot_product_flash_attention_for_cpu(grouped, shared(k), shared(v), 0.0, causal, added, scale);
  }
  return {output.reshape(q.sizes()), lse.to(at::kFloat).reshape({q.size(0), q.size(1)})};
}

// FlashAttention-2 takes 16-bit numbers of these sizes. It aligns its causal mask to the last key, shares a KV head
// among query heads, splits the keys of few rows over the GPU, and skips what lies before a window.
bool FlashTakes(const at::Tensor& q) {
  return q.is_cuda() && q.element_size() == 2 && q.size(2) % 8 == 0 && q.size(2) <= 256;
}

AttentionResult AttendByFlash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                              int64_t window) {
  const auto by_row = [](const at::Tensor& heads) { return heads.transpose(0, 1).unsqueeze(0); };
  std::optional<int64_t> before, after;
  if (window > 0) {
    before = window - 1;
    after = 0;
  }
  const auto [output, lse, seed, offset, mask] =
      at::_flash_attention_forward(by_row(q), by_row(k), by_row(v), {}, {}, q.size(1), k.size(1), 0.0,
                                   /*is_causal=*/true, /*return_debug_mask=*/false, scale, before, after);
  return {output.squeeze(0).transpose(0, 1), lse.to(at::kFloat).reshape({q.size(0), q.size(1)})};
}

// The GPU's kernel wants rows of a bias that begin at multiples of so many numbers.
constexpr int64_t kAlignment = 16;

// 0 where a row at `past` + i sees the key, minus infinity elsewhere.
at::Tensor WindowBias(int64_t rows, int64_t past, int64_t window, const at::TensorOptions& options) {
  const int64_t keys = past + rows;
  const int64_t padded = (keys + kAlignment - 1) / kAlignment * kAlignment;
  const at::TensorOptions whole = options.dtype(at::kInt);
  const at::Tensor distance = at::arange(past, past + rows, whole).unsqueeze(1).sub(at::arange(0, padded, whole));
  return at::zeros({rows, padded}, options)
      .masked_fill_(distance.lt(0).logical_or_(distance.ge(window)), -std::numeric_limits<double>::infinity())
      .narrow(1, 0, keys);
}

// The size that the fused kernels are given where K and V have these: one for both, and on a GPU, whose kernels read 16
// bytes at a time, in eights.
int64_t FusedDim(const at::Tensor& k, const at::Tensor& v) {
  const int64_t dim = std::max(k.size(2), v.size(2));
  return k.is_cuda() ? (dim + 7) / 8 * 8 : dim;
}

// Zeros after the last component: they add nothing to a product, and give nothing to an output.
at::Tensor Padded(const at::Tensor& heads, int64_t dim) {
  return heads.size(2) == dim ? heads : at::constant_pad_nd(heads, {0, dim - heads.size(2)});
}

// Every row sees every key: an encoder's.
AttentionResult AttendToAll(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  const int64_t dim = FusedDim(k, v);
  AttentionResult result = AttendBlock(Padded(q, dim), Padded(k, dim), Padded(v, dim), scale, false);
  result.output = result.output.narrow(2, 0, v.size(2));
  return result;
}

}  // namespace

AttentionResult AttendCausal(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                             int64_t window) {
  const int64_t rows = q.size(1), past = k.size(1) - rows;
  if (const int64_t hidden = past - window + 1; window > 0 && hidden > 0) {
    // Nothing before the first row's window is looked at, and one row alone sees all the rest.
    const int64_t near = k.size(1) - hidden;
    return AttendCausal(q, k.narrow(1, hidden, near), v.narrow(1, hidden, near), scale, rows == 1 ? 0 : window);
  }
  if (const int64_t dim = FusedDim(k, v); k.size(2) != dim || v.size(2) != dim) {
    AttentionResult result = AttendCausal(Padded(q, dim), Padded(k, dim), Padded(v, dim), scale, window);
    result.output = result.output.narrow(2, 0, v.size(2));
    return result;
  }
  if (FlashTakes(q)) return AttendByFlash(q, k, v, scale, window);
  if (window > 0 && window < past + rows)
    return AttendBlock(q, k, v, scale, false, WindowBias(rows, past, window, q.options()));
  if (past == 0) return AttendBlock(q, k, v, scale, true);
  if (rows == 1) return AttendBlock(q, k, v, scale, false);
  // The kernels' causal mask is aligned to the first key, ours to the last one. So the past, which every row sees
  // whole, and the square on the diagonal are two blocks; each row's softmax over both is their sum weighted by exp(lse
  // of the block - lse of both).
  const AttentionResult before = AttendBlock(q, k.narrow(1, 0, past), v.narrow(1, 0, past), scale, false);
  const AttentionResult square = AttendBlock(q, k.narrow(1, past, rows), v.narrow(1, past, rows), scale, true);
  const at::Tensor lse = at::logaddexp(before.lse, square.lse);
  const auto weight = [&](const at::Tensor& part) { return at::exp(part - lse).unsqueeze(-1); };
  const at::Tensor output =
      before.output.to(at::kFloat).mul(weight(before.lse)).add_(square.output.to(at::kFloat).mul(weight(square.lse)));
  return {output.to(q.scalar_type()), lse};
}

AttentionResult AttendChunks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                             int64_t chunk) {
  const int64_t rows = q.size(1), past = k.size(1) - rows;
  std::vector<at::Tensor> outputs, lses;
  for (int64_t first = 0; first < rows;) {
    const int64_t position = past + first, begin = position - position % chunk;
    const int64_t count = std::min(rows - first, begin + chunk - position), seen = position + count - begin;
    const AttentionResult block =
        AttendCausal(q.narrow(1, first, count), k.narrow(1, begin, seen), v.narrow(1, begin, seen), scale);
    outputs.push_back(block.output);
    lses.push_back(block.lse);
    first += count;
  }
  if (outputs.size() == 1) return {outputs.front(), lses.front()};
  return {at::cat(outputs, 1), at::cat(lses, 1)};
}

AttentionResult AttendCapped(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                             double soft_cap, int64_t window) {
  const int64_t rows = q.size(1), tokens = k.size(1), past = tokens - rows;
  const int64_t kv_heads = k.size(0), group = q.size(0) / kv_heads;
  const int64_t step = RowsOfBlock(q.size(0) * tokens, rows);
  const at::TensorOptions numbers = q.options().dtype(at::kInt);
  const at::Tensor keys = k.to(at::kFloat).transpose(1, 2), values = v.to(at::kFloat);
  std::vector<at::Tensor> outputs, lses;
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    const int64_t begin = window > 0 ? std::max<int64_t>(0, past + first - window + 1) : 0;
    const int64_t seen = past + first + count - begin;
    const at::Tensor queries = q.narrow(1, first, count).to(at::kFloat).reshape({kv_heads, group * count, q.size(2)});
    const at::Tensor scores = at::bmm(queries, keys.narrow(2, begin, seen))
                                  .mul_(scale / soft_cap)
                                  .tanh_()
                                  .mul_(soft_cap)
                                  .view({kv_heads, group, count, seen});
    const at::Tensor distance = at::arange(past + first, past + first + count, numbers)
                                    .unsqueeze(1)
                                    .sub(at::arange(begin, begin + seen, numbers));
    at::Tensor hidden = distance.lt(0);
    if (window > 0) hidden = hidden.logical_or_(distance.ge(window));
    scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
    const at::Tensor lse = scores.logsumexp({-1}, /*keepdim=*/true);
    const at::Tensor shares = scores.sub(lse).exp_().view({kv_heads, group * count, seen});
    outputs.push_back(at::bmm(shares, values.narrow(1, begin, seen)).view({q.size(0), count, v.size(2)}));
    lses.push_back(lse.view({q.size(0), count}));
  }
  return {at::cat(outputs, 1).to(q.scalar_type()), at::cat(lses, 1)};
}

AttentionResult AttendSelected(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                               const at::Tensor& selected, bool with_lse, int64_t block_scores) {
  const int64_t rows = q.size(1), tokens = k.size(1), dim = FusedDim(k, v);
  const int64_t padded = (tokens / kAlignment + 1) * kAlignment;  // one column at least for what fills a row up
  const int64_t step = RowsOfBlock(padded, rows, block_scores);
  const at::Tensor wide_k = Padded(k, dim).contiguous(), wide_v = Padded(v, dim).contiguous();
  std::vector<at::Tensor> outputs;
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    const at::Tensor ids = selected.narrow(0, first, count).to(at::kLong);
    const at::Tensor bias = at::full({count, padded}, -std::numeric_limits<double>::infinity(), q.options())
                                .scatter_(1, ids.masked_fill(ids.lt(0), tokens), 0.0)
                                .narrow(1, 0, tokens);
    const AttentionResult block =
        AttendBlock(Padded(q.narrow(1, first, count), dim).contiguous(), wide_k, wide_v, scale, false, bias);
    outputs.push_back(block.output.narrow(2, 0, v.size(2)));
  }
  return {at::cat(outputs, 1), with_lse ? AttendCausal(q, k, v, scale).lse : at::Tensor()};
}

void DenseAttention::Attend(const AttentionCall& call) {
  if (executor_ != nullptr && executor_->Attend(call)) return;
  const AttentionLayer& facts = *call.facts;
  const c10::Device device = call.on_device
                                 ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(call.device_ordinal))
                                 : c10::Device(c10::kCPU);
  const at::TensorOptions options = at::TensorOptions(device).dtype(ScalarTypeOf(call.type));
  // LibTorch's views are of memory that may be written; these are only read.
  const auto tensor = [&](const AttentionCall::Tensor& from, int64_t heads, int64_t rows, int64_t dim) {
    return at::from_blob(const_cast<void*>(from.data), {heads, rows, dim}, {from.head_stride, from.row_stride, 1},
                         options);
  };
  const at::Tensor q = tensor(call.q, facts.num_qo_heads, call.num_rows, facts.head_dim);
  const at::Tensor k = tensor(call.k, facts.num_kv_heads, call.num_tokens, facts.head_dim);
  const at::Tensor v = tensor(call.v, facts.num_kv_heads, call.num_tokens, facts.v_head_dim);
  at::Tensor selected;
  if (facts.selected > 0) {
    // Their share would be that of the chosen keys, which nothing here makes.
    if (!facts.sinks.empty()) throw std::logic_error("a layer with an index has no sinks");
    if (call.selected == nullptr) throw std::logic_error("a layer with an index was handed no tokens");
    selected =
        at::from_blob(const_cast<int32_t*>(call.selected), {call.num_rows, call.num_selected}, options.dtype(at::kInt));
  }
  AttentionResult result = selected.defined()    ? AttendSelected(q, k, v, facts.scale, selected, call.wants_lse)
                           : !facts.causal       ? AttendToAll(q, k, v, facts.scale)
                           : facts.chunk > 0     ? AttendChunks(q, k, v, facts.scale, facts.chunk)
                           : facts.soft_cap != 0 ? AttendCapped(q, k, v, facts.scale, facts.soft_cap, facts.window)
                                                 : AttendCausal(q, k, v, facts.scale, facts.window);
  if (!facts.sinks.empty()) {
    // Softmax with one more term is the softmax without it, scaled by the share that is left: sigmoid(lse - sink).
    const at::Tensor sinks =
        at::from_blob(const_cast<float*>(facts.sinks.data()), {facts.num_qo_heads, 1}, at::TensorOptions(at::kFloat))
            .to(device);
    const at::Tensor share = at::sigmoid(result.lse - sinks).unsqueeze(-1);
    result.output = result.output.to(at::kFloat).mul(share).to(options.dtype());
    result.lse = at::logaddexp(result.lse, sinks.expand_as(result.lse));
  }
  at::from_blob(call.o, {facts.num_qo_heads, call.num_rows, facts.v_head_dim}, options).copy_(result.output);
  if (result.lse.defined())
    at::from_blob(call.lse, {facts.num_qo_heads, call.num_rows}, options.dtype(at::kFloat)).copy_(result.lse);
}

}  // namespace headscope::model
