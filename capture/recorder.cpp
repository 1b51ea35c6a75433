// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/host_memory.h"
#include "capture/capture.h"

namespace headscope::capture {
namespace {

// What may wait to be written, of all files. A GPU makes in milliseconds what a disk takes tenths of a second for: what
// waits for the disk while the next steps run adds nothing to them.
constexpr int64_t kQueuedBytesOfFile = 64 << 20;
constexpr int64_t kMostQueuedFromGpu = int64_t{1} << 30;
constexpr int64_t kShareOfHostFromGpu = 16;            // of the free memory, one in so many
constexpr int64_t kProgramBytes = int64_t{160} << 20;  // measured, with LibTorch
constexpr std::chrono::seconds kBetweenFlushes{1};

constexpr std::array<int32_t, 1> kOnlyHead = {0};  // of what has no heads

enum class Conversion { kCopy, kShorten };  // kShorten: fp32 that is exact in bf16

void CopyRow(const char* from, int64_t count, int64_t size, Conversion conversion, char* to) {
  if (conversion == Conversion::kCopy) {
    std::memcpy(to, from, static_cast<size_t>(count * size));
    return;
  }
  // bf16 is the upper half of fp32.
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, from + 4 * i, sizeof bits);
    const auto upper = static_cast<uint16_t>(bits >> 16);
    std::memcpy(to + 2 * i, &upper, sizeof upper);
  }
}

// Where [chosen heads, chosen rows, head_dim] lie as a trace has them; null: they do not. Both are in rising order.
const char* AsTheyLie(const model::LayerHeads::Heads& heads, std::span<const int32_t> chosen,
                      std::span<const int64_t> rows, int64_t head_dim, int64_t size) {
  const auto follow = [](const auto& numbers) {
    return static_cast<size_t>(numbers.back() - numbers.front()) + 1 == numbers.size();
  };
  if (chosen.empty() || rows.empty() || !follow(chosen) || !follow(rows) || heads.token_stride != head_dim ||
      (chosen.size() > 1 && heads.head_stride != std::ssize(rows) * head_dim))
    return nullptr;
  return static_cast<const char*>(heads.data) +
         (chosen.front() * heads.head_stride + rows.front() * heads.token_stride) * size;
}

// Gathers [chosen heads, chosen rows, head_dim].
void Gather(const model::LayerHeads::Heads& heads, std::span<const int32_t> chosen, std::span<const int64_t> rows,
            int64_t head_dim, int64_t size_in, int64_t size_out, Conversion conversion, std::vector<char>* out) {
  out->resize(chosen.size() * rows.size() * static_cast<size_t>(head_dim * size_out));
  char* to = out->data();
  for (const int32_t head : chosen) {
    const char* first = static_cast<const char*>(heads.data) + head * heads.head_stride * size_in;
    for (const int64_t row : rows) {
      CopyRow(first + row * heads.token_stride * size_in, head_dim, size_out, conversion, to);
      to += head_dim * size_out;
    }
  }
}

}  // namespace

// One layer's copy, in the trace's layout and encoding.
struct LayerCopy {
  data::LayerBlock block;
  std::vector<char> q, k, v;
  std::vector<float> lse, value_norms, value_norms_l1, hidden_norms, index_weights;
  std::vector<int32_t> selected;
  std::array<std::vector<char>, data::kNumTraceTensors> vectors;  // of the points
  int64_t bytes = 0;
};

CopyPool::CopyPool() = default;
CopyPool::~CopyPool() = default;

std::shared_ptr<LayerCopy> CopyPool::Take() {
  std::unique_ptr<LayerCopy> copy;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      copy = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (copy == nullptr) copy = std::make_unique<LayerCopy>();
  return {copy.release(), [this](LayerCopy* used) {
            const std::lock_guard lock(mutex_);
            free_.emplace_back(used);
          }};
}

WriterThread::WriterThread(int64_t max_queued_bytes)
    : max_queued_bytes_(max_queued_bytes), thread_([this] { Run(); }) {}

void WriterThread::AskToStop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void WriterThread::Stop() {
  AskToStop();
  if (thread_.joinable()) thread_.join();
}

void WriterThread::RethrowLocked() {
  if (failure_) std::rethrow_exception(failure_);
}

void WriterThread::Push(int64_t bytes, std::function<void()> job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || queued_bytes_ <= max_queued_bytes_; });
  RethrowLocked();
  queued_bytes_ += bytes;
  jobs_.push_back({bytes, std::move(job)});
  changed_.notify_all();
}

void WriterThread::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || (jobs_.empty() && !busy_); });
  RethrowLocked();
}

void WriterThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      job.run();
    } catch (...) {
      failure = std::current_exception();
    }
    job.run = nullptr;  // frees the copies before their bytes are taken off the count
    lock.lock();
    busy_ = false;
    queued_bytes_ -= job.bytes;
    if (failure) {
      failure_ = failure;
      changed_.notify_all();
      return;
    }
    changed_.notify_all();
  }
}

int64_t MostQueuedBytes(bool from_gpu, int32_t num_files) {
  const int64_t from_cpu = kQueuedBytesOfFile * num_files;
  return from_gpu ? std::max(from_cpu, std::min(kMostQueuedFromGpu, FreeHostBytes() / kShareOfHostFromGpu)) : from_cpu;
}

int64_t RecorderBytes(const CapturePlan& plan, bool from_gpu) {
  return kProgramBytes + std::min(plan.bytes, MostQueuedBytes(from_gpu, plan.num_files)) +
         data::OpenChunkBytesOfFiles(plan.layout, plan.num_rows, plan.num_files);
}

Recorder::Recorder(data::TraceFilesWriter* writer, const data::TraceLayout& layout, const RowSelection& rows,
                   int64_t prompt_tokens, bool from_gpu, std::function<void()> readable)
    : writer_(writer),
      layout_(layout),
      rows_(rows),
      prompt_tokens_(prompt_tokens),
      slots_(static_cast<size_t>(layout.model.num_layers), -1),
      tokens_flushed_(static_cast<size_t>(writer->num_files())),
      readable_(std::move(readable)),
      last_flush_(std::chrono::steady_clock::now()) {
  const int64_t of_file = MostQueuedBytes(from_gpu, writer->num_files()) / writer->num_files();
  for (int32_t file = 0; file < writer->num_files(); ++file)
    threads_.push_back(std::make_unique<WriterThread>(of_file));
  for (size_t slot = 0; slot < layout.layers.size(); ++slot)
    slots_[static_cast<size_t>(layout.layers[slot])] = static_cast<int32_t>(slot);
}

void Recorder::BeginPass(std::vector<data::TokenRecord> tokens) {
  const int64_t first = next_token_;
  pass_tokens_ = static_cast<int64_t>(tokens.size());
  pass_layers_ = 0;
  next_token_ += pass_tokens_;
  RecordedRows rows;
  rows.all.resize(static_cast<size_t>(pass_tokens_));
  std::iota(rows.all.begin(), rows.all.end(), 0);
  std::vector<int32_t> positions;
  for (const int64_t i : rows.all) {
    if (!rows_.Keeps(first + i, prompt_tokens_)) continue;
    rows.kept.push_back(i);
    positions.push_back(static_cast<int32_t>(first + i));
  }
  rows.first_row = rows_recorded_;
  rows_recorded_ += std::ssize(rows.kept);
  rows_of_pass_ = std::make_shared<const RecordedRows>(std::move(rows));
  const auto records = std::make_shared<const std::vector<data::TokenRecord>>(std::move(tokens));
  const auto kept = std::make_shared<const std::vector<int32_t>>(std::move(positions));
  for (int32_t file = 0; file < writer_->num_files(); ++file) {
    threads_[static_cast<size_t>(file)]->Push(0, [&writer = writer_->file(file), records, kept] {
      writer.AppendTokens(*records);
      writer.AppendRowPositions(*kept);
    });
  }
}

void Recorder::Take(const model::LayerHeads& heads) {
  if (layout_.encoding != heads.captured)
    throw std::logic_error("the trace's encoding is not the one that the model captures");
  ++pass_layers_;
  WriterThread& thread = ThreadOf(slots_[static_cast<size_t>(heads.layer)]);
  if (heads.copy != nullptr) {
    thread.Push(heads.copy->bytes(), [this, heads, rows = rows_of_pass_] {
      heads.copy->Wait();
      const std::shared_ptr<LayerCopy> copy = copies_.Take();
      Fill(heads, *rows, copy.get());
      writer_->Append(copy->block);
    });
    return;
  }
  const std::shared_ptr<LayerCopy> copy = copies_.Take();
  Fill(heads, *rows_of_pass_, copy.get());
  thread.Push(copy->bytes, [writer = writer_, copy] { writer->Append(copy->block); });
}

void Recorder::Fill(const model::LayerHeads& heads, const RecordedRows& rows, LayerCopy* copy) const {
  const Conversion conversion = heads.type == heads.captured ? Conversion::kCopy : Conversion::kShorten;
  const int64_t size_in = SizeOf(heads.type);
  const int64_t size_out = SizeOf(layout_.encoding);
  const int32_t slot = slots_[static_cast<size_t>(heads.layer)];
  const data::LayerFacts& facts = layout_.facts[static_cast<size_t>(slot)];
  const int64_t head_dim = facts.head_dim, v_head_dim = facts.v_head_dim;
  const bool stays = heads.copy != nullptr && conversion == Conversion::kCopy;
  copy->bytes = 0;
  // [chosen heads, chosen rows, components], in `to` unless they lie like that already.
  const auto gather = [&](const model::LayerHeads::Heads& from, std::span<const int32_t> chosen,
                          std::span<const int64_t> of_rows, int64_t components, std::vector<char>* to) {
    const char* found = stays ? AsTheyLie(from, chosen, of_rows, components, size_in) : nullptr;
    if (found != nullptr) return found;
    Gather(from, chosen, of_rows, components, size_in, size_out, conversion, to);
    copy->bytes += std::ssize(*to);
    return static_cast<const char*>(to->data());
  };
  copy->lse.resize(facts.qo_heads.size() * rows.kept.size());
  copy->bytes += 4 * std::ssize(copy->lse);
  float* lse = copy->lse.data();
  for (const int32_t head : facts.qo_heads) {
    for (const int64_t row : rows.kept) *lse++ = heads.lse[head * heads.num_tokens + row];
  }
  copy->block = {.layer_slot = slot,
                 .first_token = heads.first_token,
                 .num_tokens = heads.num_tokens,
                 .first_row = rows.first_row,
                 .num_rows = std::ssize(rows.kept),
                 .q = gather(heads.q, facts.qo_heads, rows.kept, head_dim, &copy->q),
                 .k = gather(heads.k, facts.kv_heads, rows.all, head_dim, &copy->k),
                 .v = gather(heads.v, facts.kv_heads, rows.all, v_head_dim, &copy->v),
                 .lse = copy->lse.data()};
  // The chosen heads of a point's vectors, for recorded rows or for all tokens.
  const auto keep = [&](data::TraceTensor tensor, const model::LayerHeads::Heads& from, bool of_rows,
                        std::span<const int32_t> chosen, int64_t components) {
    std::vector<char>* const to = &copy->vectors[static_cast<size_t>(tensor)];
    copy->block.Set(tensor, gather(from, chosen, of_rows ? rows.kept : rows.all, components, to));
  };
  const auto keep_norms = [&](data::TraceTensor tensor, const float* of_heads, std::vector<float>* norms) {
    norms->clear();
    for (const int32_t head : facts.qo_heads) {
      const float* const first = of_heads + head * heads.num_tokens;
      norms->insert(norms->end(), first, first + heads.num_tokens);
    }
    copy->block.Set(tensor, norms->data());
    copy->bytes += 4 * std::ssize(*norms);
  };
  using data::TraceTensor;
  for (const model::CapturePointInfo& info : model::kCapturePoints) {
    if (!(facts.*StoredFact(info.point))) continue;
    switch (info.point) {
      case model::CapturePoint::kPreRope:
        keep(TraceTensor::kQPreRope, heads.q_pre_rope, true, facts.qo_heads, head_dim);
        keep(TraceTensor::kKPreRope, heads.k_pre_rope, false, facts.kv_heads, head_dim);
        break;
      case model::CapturePoint::kProjection:
        keep(TraceTensor::kQProjection, heads.q_projection, true, facts.qo_heads, head_dim);
        keep(TraceTensor::kKProjection, heads.k_projection, false, facts.kv_heads, head_dim);
        break;
      case model::CapturePoint::kCache:
        keep(TraceTensor::kCacheK, heads.cache_k, false, facts.kv_heads, head_dim);
        keep(TraceTensor::kCacheV, heads.cache_v, false, facts.kv_heads, v_head_dim);
        break;
      case model::CapturePoint::kResidual:
        keep(TraceTensor::kResidual, heads.residual, false, kOnlyHead, facts.hidden_size);
        break;
      case model::CapturePoint::kHeadOutputs:
        keep(TraceTensor::kHeadOutput, heads.head_outputs, true, facts.qo_heads, v_head_dim);
        break;
      case model::CapturePoint::kValueNorms:
        keep_norms(TraceTensor::kValueNorms, heads.value_norms, &copy->value_norms);
        break;
      case model::CapturePoint::kValueNormsL1:
        keep_norms(TraceTensor::kValueNormsL1, heads.value_norms_l1, &copy->value_norms_l1);
        break;
      case model::CapturePoint::kHiddenNorms:
        copy->hidden_norms.assign(heads.hidden_norms, heads.hidden_norms + heads.num_tokens);
        copy->block.Set(TraceTensor::kHiddenNorms, copy->hidden_norms.data());
        copy->bytes += 4 * std::ssize(copy->hidden_norms);
        break;
    }
  }
  if (const data::SelectionFacts& selection = facts.selection; selection.sets > 0) {
    std::vector<int32_t> index_heads(static_cast<size_t>(selection.index_heads));
    std::iota(index_heads.begin(), index_heads.end(), 0);
    keep(TraceTensor::kIndexQ, heads.index_q, true, index_heads, selection.index_dim);
    keep(TraceTensor::kIndexK, heads.index_k, false, kOnlyHead, selection.index_dim);
    copy->index_weights.clear();
    for (const int32_t head : index_heads) {
      for (const int64_t row : rows.kept)
        copy->index_weights.push_back(heads.index_weights[head * heads.num_tokens + row]);
    }
    copy->block.Set(TraceTensor::kIndexWeights, copy->index_weights.data());
    // As many as the trace's longest rows have, which early passes do not have yet.
    copy->selected.assign(rows.kept.size() * static_cast<size_t>(selection.ids), -1);
    const int64_t count = std::min<int64_t>(heads.num_selected, selection.ids);
    int32_t* to = copy->selected.data();
    for (const int64_t row : rows.kept) {
      std::copy_n(heads.selected + row * heads.num_selected, count, to);
      to += selection.ids;
    }
    copy->block.Set(TraceTensor::kSelection, copy->selected.data());
    copy->bytes += 4 * (std::ssize(copy->index_weights) + std::ssize(copy->selected));
  }
}

// The writer counts a token once it is there in every layer, so what it has of the others is in nobody's way.
void Recorder::AbandonPass() {
  if (pass_layers_ == layout_.layers.size()) return;
  next_token_ -= pass_tokens_;
  rows_recorded_ -= std::ssize(rows_of_pass_->kept);
}

bool Recorder::WantsPoint(model::CapturePoint point) const {
  // Alike in all layers: they are what one request asked for.
  return !layout_.facts.empty() && layout_.facts.front().*StoredFact(point);
}

void Recorder::EndPass() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_flush_ < kBetweenFlushes) return;
  last_flush_ = now;
  PushFlush();
}

// Between passes, when every token up to here is queued in every layer.
void Recorder::PushFlush() {
  for (size_t file = 0; file < threads_.size(); ++file) {
    threads_[file]->Push(0, [this, file, tokens = next_token_] {
      writer_->file(static_cast<int32_t>(file)).Flush();
      const bool is_first = tokens_flushed_[file].exchange(tokens) == 0;
      if (is_first && tokens_flushed() > 0 && readable_) readable_();
    });
  }
}

int64_t Recorder::tokens_flushed() const {
  int64_t least = tokens_flushed_.front();
  for (const std::atomic<int64_t>& of_file : tokens_flushed_) least = std::min(least, of_file.load());
  return least;
}

void Recorder::Drain() {
  PushFlush();
  for (const auto& thread : threads_) thread->Drain();
}

int64_t Recorder::Stop() {
  for (const auto& thread : threads_) thread->AskToStop();
  for (const auto& thread : threads_) thread->Stop();
  return tokens_flushed();
}

}  // namespace headscope::capture
