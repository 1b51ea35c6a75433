// SPDX-License-Identifier: Apache-2.0
#include "tile_source.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>

namespace headscope::app {
namespace {

constexpr int64_t TileBytes() {
  return int64_t{analysis::kTileSize} * analysis::kTileSize * static_cast<int64_t>(sizeof(float));
}

}  // namespace

std::string ViewName(ui::MapView view) {
  return std::to_string(static_cast<int>(view));
}

TileSource::TileSource(ui::MapView view, analysis::TaskQueue* queue, ui::MemoryBudget* memory, Post post,
                       ui::ErrorReply failed)
    : map_(view),
      tile_prefix_("tile/" + ViewName(view) + "/"),
      pyramid_prefix_("pyramid/" + ViewName(view) + "/"),
      queue_(queue),
      memory_(memory),
      post_(std::move(post)),
      failed_(std::move(failed)) {}

std::string TileSource::HeadTag(analysis::HeadId head) const {
  return pyramid_prefix_ + std::to_string(head.layer) + ":" + std::to_string(head.head) + "/";
}

std::string TileSource::PyramidTag(const Due& due) const {
  std::string tag = HeadTag(due.head);
  for (const analysis::TileReduction reduction : due.reductions)
    tag += reduction == analysis::TileReduction::kMax ? "max" : "mean";
  return tag;
}

void TileSource::SetTrace(std::shared_ptr<OpenedTrace> trace) {
  Cancel();
  queue_->Cancel(pyramid_prefix_);
  waiting_.clear();
  due_.reset();
  for (const auto& [key, tiles] : pyramids_) {
    for (const auto& [tile_key, tile] : tiles) memory_->Release(tile.lock().get());
  }
  pyramids_.clear();
  trace_ = std::move(trace);
}

int32_t TileSource::FirstCoarseLevel() const {
  return std::max(0, analysis::MaxLevel(trace_->summary.num_rows, trace_->summary.num_tokens) - 3);
}

std::string TileSource::NextTag() {
  return tile_prefix_ + std::to_string(++request_);
}

void TileSource::Request(const analysis::TileKey& key, int32_t priority, ui::Reply<analysis::TilePtr> done) {
  if (!trace_) return;
  if (key.level < FirstCoarseLevel()) {
    auto tile = std::make_shared<analysis::TilePtr>();
    auto error = std::make_shared<std::string>();
    queue_->Submit(
        NextTag(), priority,
        [trace = trace_, view = map_, key, tile, error](const std::stop_token& stop) {
          try {
            *tile = analysis::ComputeTile(*trace->heads.Show(view, key.head), key, 1, stop);
          } catch (const std::exception& refused) {
            *error = refused.what();
          }
        },
        [this, tile, error, done = std::move(done)] {
          if (!error->empty()) failed_(*error);
          done(*tile);
        });
    return;
  }
  const PyramidKey pyramid{key.head, key.reduction};
  if (const auto known = pyramids_.find(pyramid); known != pyramids_.end()) {
    const auto place = known->second.find(key);
    if (place == known->second.end()) return Deliver(std::move(done), analysis::TilePtr());  // no score lies there
    if (analysis::TilePtr tile = memory_->Find(place->second, TileBytes())) {
      Deliver(std::move(done), std::move(tile));
      return;
    }
    pyramids_.erase(known);  // the pass makes all of them anew
  }
  if (!waiting_.contains(pyramid)) Schedule(pyramid, priority);
  Pass& pass = waiting_[pyramid];
  if (const auto preview = pass.preview.find(key); preview != pass.preview.end()) Deliver(done, preview->second);
  pass.waiters.push_back({key, std::move(done)});
}

void TileSource::Schedule(const PyramidKey& key, int32_t priority) {
  // Passes over heads that are no longer looked at end here; the other reduction of this head goes on.
  std::erase_if(waiting_, [&](const auto& entry) {
    const bool other_head = entry.first.first != key.first;
    if (other_head) queue_->Cancel(HeadTag(entry.first.first));
    return other_head;
  });
  if (due_ && due_->head == key.first) {
    due_->reductions.push_back(key.second);
    due_->priority = std::max(due_->priority, priority);
    return;
  }
  due_ = {key.first, {key.second}, priority};
  post_([this] { StartDue(); });
}

void TileSource::StartDue() {
  if (!due_) return;  // of a trace that has been closed, or begun by an earlier turn
  const Due due = std::move(*due_);
  due_.reset();
  // A long head's first picture cannot wait for all of its rows, nor share the cores with the pass over them.
  auto tiles = std::make_shared<std::vector<analysis::TilePtr>>();
  queue_->Submit(
      PyramidTag(due), due.priority,
      [trace = trace_, view = map_, due, level = FirstCoarseLevel(), tiles](const std::stop_token& stop) {
        try {
          const analysis::HeadTensorsPtr head = trace->heads.Show(view, due.head);
          const int64_t row_step = analysis::PreviewRowStep(*head, level);
          if (row_step > 1) *tiles = analysis::PreviewPyramid(*head, due.reductions, level, row_step, 0, stop);
        } catch (const std::exception&) {
          // The exact pass meets the same and says it.
        }
      },
      [this, due, tiles] {
        StartExactPyramid(due);
        FinishPreview(due, std::move(*tiles));
      });
}

void TileSource::StartExactPyramid(const Due& due) {
  auto tiles = std::make_shared<std::vector<analysis::TilePtr>>();
  auto error = std::make_shared<std::string>();
  queue_->Submit(
      PyramidTag(due), due.priority,
      [trace = trace_, view = map_, due, level = FirstCoarseLevel(), tiles, error](const std::stop_token& stop) {
        try {
          *tiles = analysis::ComputePyramid(*trace->heads.Show(view, due.head), due.reductions, level, 0, stop);
        } catch (const std::exception& refused) {
          *error = refused.what();
        }
      },
      [this, due, tiles, error] {
        if (!error->empty()) failed_(*error);
        FinishPyramid(due, std::move(*tiles));
      });
}

void TileSource::FinishPreview(const Due& due, std::vector<analysis::TilePtr> tiles) {
  for (analysis::TilePtr& tile : tiles) {
    const analysis::TileKey key = tile->key;
    waiting_[{key.head, key.reduction}].preview.emplace(key, std::move(tile));
  }
  for (const analysis::TileReduction reduction : due.reductions) {
    const Pass& pass = waiting_[{due.head, reduction}];
    for (const Waiter& waiter : pass.waiters) {
      const auto tile = pass.preview.find(waiter.key);
      if (tile != pass.preview.end()) Deliver(waiter.done, tile->second);
    }
  }
}

void TileSource::FinishPyramid(const Due& due, std::vector<analysis::TilePtr> tiles) {
  std::vector<Waiter> waiters;
  for (const analysis::TileReduction reduction : due.reductions) {
    const auto pass = waiting_.extract({due.head, reduction});
    if (!pass.empty())
      std::move(pass.mapped().waiters.begin(), pass.mapped().waiters.end(), std::back_inserter(waiters));
  }
  std::map<analysis::TileKey, analysis::TilePtr> by_key;
  for (analysis::TilePtr& tile : tiles) {
    if (!tile) continue;
    memory_->Keep(tile, TileBytes());
    pyramids_[{due.head, tile->key.reduction}][tile->key] = tile;
    by_key.emplace(tile->key, std::move(tile));
  }
  const int64_t view = view_;
  for (const Waiter& waiter : waiters) {
    const auto tile = by_key.find(waiter.key);
    waiter.done(tile == by_key.end() ? nullptr : tile->second);  // where the pass failed, there are none
    if (view != view_) return;                                   // a reply has changed the view: the others are stale
  }
}

template <typename Tile>
void TileSource::Deliver(ui::Reply<Tile> done, Tile tile) {
  post_([this, view = view_, done = std::move(done), tile = std::move(tile)] {
    if (view == view_) done(tile);
  });
}

void TileSource::RequestMask(const analysis::KeptMask* held, const analysis::TileKey& key, int32_t priority,
                             ui::Reply<analysis::MaskTilePtr> done) {
  if (held == nullptr) return Deliver(std::move(done), analysis::MaskTilePtr());
  auto tile = std::make_shared<analysis::MaskTilePtr>();
  queue_->Submit(
      NextTag(), priority,
      [mask = *held, key, tile](const std::stop_token&) {
        *tile = mask.steps ? analysis::ComputeMaskTile(*mask.steps, key)
                           : analysis::ComputeMaskTile(mask.index->View(), mask.window, key);
      },
      [tile, done = std::move(done)] { done(*tile); });
}

void TileSource::RequestMaskPair(const analysis::KeptMask* first, const analysis::KeptMask* second,
                                 const analysis::TileKey& key, int32_t priority,
                                 ui::Reply<analysis::MaskPairTilePtr> done) {
  if (first == nullptr || second == nullptr) return Deliver(std::move(done), analysis::MaskPairTilePtr());
  auto tile = std::make_shared<analysis::MaskPairTilePtr>();
  queue_->Submit(
      NextTag(), priority,
      [first = *first, second = *second, key, tile](const std::stop_token& stop) {
        *tile = analysis::ComputeMaskPairTile(first, second, key, stop);
      },
      [tile, done = std::move(done)] { done(*tile); });
}

void TileSource::Cancel() {
  ++view_;
  queue_->Cancel(tile_prefix_);
  for (auto& [key, pass] : waiting_) pass.waiters.clear();
}

}  // namespace headscope::app
