// SPDX-License-Identifier: Apache-2.0
#include "tile_cache.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace headscope::ui {

namespace {

using analysis::kTileSize;
using analysis::TileKey;

// Priorities; higher is sooner. Distances count down from the base in eighths of a tile.
constexpr int32_t kRootPriority = 4'000'000;
constexpr int32_t kMaskPriority = 3'000'000;  // a mask tile is cheap and follows a slider
constexpr int32_t kTilePriority = 2'000'000;
constexpr int32_t kProfilePriority = 1'000'000;
constexpr double kStepsPerTile = 8;

// A pan leaves a few requests behind that nobody wants; they are let run, because cancelling stops the wanted ones
// beside them too. So many of them are worth it.
constexpr int64_t kStaleLimit = 8;

constexpr int64_t kTexels = int64_t{kTileSize} * kTileSize;
constexpr int64_t kTileBytes = kTexels * static_cast<int64_t>(sizeof(float));
constexpr int64_t kMaskTileBytes = kTexels;
constexpr int64_t kPairTileBytes = kTexels * static_cast<int64_t>(analysis::kNumKeptBy);

}  // namespace

TileCache::TileCache(MapView view) : view_(view), self_(std::make_shared<TileCache*>(this)) {}

TileCache::~TileCache() {
  Clear();
}

void TileCache::SetWorkbench(Workbench* workbench) {
  Clear();
  workbench_ = workbench;
}

template <typename Predicate>
void TileCache::DropMasks(const Predicate& drops) {
  const auto drop = [&](const auto& entry) {
    const bool dropped = drops(entry.first);
    if (dropped) workbench_->memory().Release(entry.second.lock().get());
    return dropped;
  };
  std::erase_if(masks_, drop);
  std::erase_if(pairs_, drop);
}

void TileCache::Clear() {
  CancelAll();
  for (const auto& [key, tile] : tiles_) workbench_->memory().Release(tile.lock().get());
  DropMasks([](const MaskKey&) { return true; });
  tiles_.clear();
  coarsest_.clear();
  failed_.clear();
  has_head_ = false;
  mask_id_ = other_mask_id_ = old_mask_id_ = old_other_mask_id_ = 0;
}

void TileCache::SetHead(analysis::HeadId head, const CausalRows& rows) {
  CancelAll();
  failed_.clear();
  head_ = head;
  rows_ = rows;
  has_head_ = true;
  for (const analysis::TilePtr& tile : coarsest_) workbench_->memory().Pin(tile.get(), false);
  coarsest_.clear();
  std::erase_if(tiles_, [](const auto& entry) { return entry.second.expired(); });
  const TileKey coarsest{head, {}, analysis::MaxLevel(rows_.num_rows(), rows_.num_columns()), 0, 0};
  for (const auto reduction : {analysis::TileReduction::kMax, analysis::TileReduction::kMean}) {
    TileKey key = coarsest;
    key.reduction = reduction;
    if (const analysis::TilePtr tile = Use(key)) KeepOnShow(tile);
  }
  DropMasks([](const MaskKey&) { return true; });
  mask_id_ = other_mask_id_ = old_mask_id_ = old_other_mask_id_ = 0;
}

void TileCache::KeepOnShow(const analysis::TilePtr& tile) {
  // A preview goes when its tile has come.
  std::erase_if(coarsest_, [&](const analysis::TilePtr& before) {
    const bool same = before->key == tile->key;
    if (same) workbench_->memory().Pin(before.get(), false);
    return same;
  });
  workbench_->memory().Pin(tile.get(), true);
  coarsest_.push_back(tile);
}

void TileCache::SetMask(int64_t mask_id, int64_t other_mask_id) {
  if (mask_id == 0) other_mask_id = 0;
  if (mask_id == mask_id_ && other_mask_id == other_mask_id_) return;
  // The mask shown so far may be half replaced: keep its tiles, drop the ones of its predecessor.
  DropMasks([this, dropped = old_mask_id_, dropped_other = old_other_mask_id_](const MaskKey& key) {
    return key.mask_id == dropped && key.other_id == dropped_other &&
           (key.mask_id != mask_id_ || key.other_id != other_mask_id_);
  });
  std::erase_if(failed_, [](const MaskKey& key) { return key.mask_id != 0; });
  old_mask_id_ = mask_id_;
  old_other_mask_id_ = other_mask_id_;
  mask_id_ = mask_id;
  other_mask_id_ = other_mask_id;
  if (mask_id_ == 0) {
    DropMasks([](const MaskKey&) { return true; });
    old_mask_id_ = old_other_mask_id_ = 0;
  }
}

void TileCache::AddRange(const TileRange& range, analysis::TileReduction reduction, bool of_mask, int32_t base_priority,
                         const TileDemand& demand, std::vector<Request>* requests) const {
  const double tile_scores = std::ldexp(static_cast<double>(kTileSize), range.level);
  const double center_x = demand.center_column / tile_scores - 0.5;
  const double center_y = demand.center_row / tile_scores - 0.5;
  for (int32_t y = range.y_begin; y < range.y_end; ++y) {
    for (int32_t x = range.x_begin; x < range.x_end; ++x) {
      const TileKey key{.head = head_, .reduction = reduction, .level = range.level, .x = x, .y = y};
      if (!rows_.HasScores(key)) continue;
      const double distance = std::hypot(x - center_x, y - center_y) * kStepsPerTile;
      requests->push_back({{of_mask ? mask_id_ : 0, of_mask ? other_mask_id_ : 0, key},
                           base_priority - static_cast<int32_t>(std::lround(distance))});
    }
  }
}

std::vector<TileCache::Request> TileCache::WantedRequests(const TileDemand& demand) const {
  std::vector<Request> requests;
  TileRange root;
  root.level = analysis::MaxLevel(rows_.num_rows(), rows_.num_columns());
  root.x_end = root.y_end = 1;
  AddRange(root, demand.reduction, false, kRootPriority, demand, &requests);
  AddRange(demand.tiles, demand.reduction, false, kTilePriority, demand, &requests);
  AddRange(demand.compared_tiles, demand.reduction, false, kTilePriority, demand, &requests);
  AddRange(demand.profile_tiles, analysis::TileReduction::kMean, false, kProfilePriority, demand, &requests);
  if (demand.mask && mask_id_ != 0) {
    // Masks know no reduction; the key's is fixed so that switching it keeps the tiles.
    AddRange(demand.tiles, analysis::TileReduction::kMax, true, kMaskPriority, demand, &requests);
  }
  std::stable_sort(requests.begin(), requests.end(),
                   [](const Request& a, const Request& b) { return a.priority > b.priority; });
  return requests;
}

void TileCache::Want(const TileDemand& demand) {
  if (workbench_ == nullptr || !has_head_) return;
  std::vector<Request> requests = WantedRequests(demand);
  std::set<MaskKey> wanted;
  for (const Request& request : requests) wanted.insert(request.key);

  // A whole view gone stale (other level, head or mask) is dropped at once.
  const auto stale =
      std::count_if(pending_.begin(), pending_.end(), [&](const auto& entry) { return !wanted.contains(entry.first); });
  if (stale >= kStaleLimit || (stale > 0 && stale == num_pending())) CancelAll();

  bool mask_complete = true;
  for (const Request& request : requests) {
    if (Held(request.key)) continue;
    if (request.key.mask_id != 0 && !failed_.contains(request.key)) mask_complete = false;
    if (!pending_.contains(request.key) && !failed_.contains(request.key)) Send(request);
  }
  if (mask_complete && old_mask_id_ != 0) {
    DropMasks([&](const MaskKey& key) { return key.mask_id != mask_id_ || key.other_id != other_mask_id_; });
    old_mask_id_ = old_other_mask_id_ = 0;
  }
}

bool TileCache::Held(const MaskKey& key) const {
  const auto held = [](const auto& tiles, const auto& of) {
    const auto tile = tiles.find(of);
    return tile != tiles.end() && !tile->second.expired();
  };
  if (key.mask_id == 0) {
    const auto tile = tiles_.find(key.key);
    const analysis::TilePtr kept = tile == tiles_.end() ? nullptr : tile->second.lock();
    return kept && !kept->preview;
  }
  return key.other_id == 0 ? held(masks_, key) : held(pairs_, key);
}

analysis::TilePtr TileCache::Use(const TileKey& key) {
  const auto found = tiles_.find(key);
  return found == tiles_.end() ? nullptr : workbench_->memory().Find(found->second, kTileBytes);
}

template <typename Tile>
std::shared_ptr<const Tile> TileCache::UseMask(const Masks<Tile>& masks, int64_t bytes, const MaskKey& key) const {
  const auto found = masks.find(key);
  return found == masks.end() ? nullptr : workbench_->memory().Find(found->second, bytes);
}

void TileCache::Send(const Request& request) {
  const MaskKey key = request.key;
  pending_.emplace(key, std::chrono::steady_clock::now());
  // One reply serves both kinds of tile; only where the tile is put differs.
  const auto receive = [weak = std::weak_ptr<TileCache*>(self_), key](const auto& store, bool preview = false) {
    const std::shared_ptr<TileCache*> self = weak.lock();
    if (!self) return;
    TileCache& cache = **self;
    // The tile itself is still on its way after its preview, whose time nobody watches.
    if (const auto pending = cache.pending_.find(key); !preview && pending != cache.pending_.end()) {
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - pending->second;
      cache.pending_.erase(pending);
      if (cache.watch_) cache.watch_(took.count());
    }
    if (!store(cache)) cache.failed_.insert(key);
    if (cache.on_arrival_) cache.on_arrival_();
  };
  if (key.mask_id == 0) {
    const bool coarsest = key.key.level == analysis::MaxLevel(rows_.num_rows(), rows_.num_columns());
    workbench_->RequestTile(view_, key.key, request.priority, [receive, key, coarsest](const analysis::TilePtr& tile) {
      const auto put = [&](TileCache& cache) {
        if (!tile || static_cast<int64_t>(tile->log2_p.size()) != kTexels) return false;
        if (tile->preview && cache.Held(key)) return true;  // the tile itself was faster
        MemoryBudget& memory = cache.workbench_->memory();
        memory.Keep(tile, kTileBytes);
        const analysis::TilePtr before = std::exchange(cache.tiles_[key.key], tile).lock();
        if (coarsest && key.key.head == cache.head_) cache.KeepOnShow(tile);
        if (before && before != tile) memory.Release(before.get());  // its preview: nobody asks for it any more
        return true;
      };
      receive(put, tile && tile->preview);
    });
    return;
  }
  const auto put = [receive, key](const auto& tile, size_t values, int64_t bytes, auto TileCache::*held) {
    receive([&](TileCache& cache) {
      if (!tile || tile->kept.size() != values) return false;
      if (key.mask_id != cache.mask_id_ || key.other_id != cache.other_mask_id_) return true;
      cache.workbench_->memory().Keep(tile, bytes);
      (cache.*held)[key] = tile;
      return true;
    });
  };
  if (key.other_id == 0) {
    workbench_->RequestMaskTile(view_, key.mask_id, key.key, request.priority,
                                [put](const analysis::MaskTilePtr& tile) {
                                  put(tile, static_cast<size_t>(kTexels), kMaskTileBytes, &TileCache::masks_);
                                });
  } else {
    workbench_->RequestMaskPairTile(
        view_, key.mask_id, key.other_id, key.key, request.priority, [put](const analysis::MaskPairTilePtr& tile) {
          put(tile, static_cast<size_t>(kPairTileBytes), kPairTileBytes, &TileCache::pairs_);
        });
  }
}

std::string TileCache::DescribePending() const {
  constexpr size_t kMostNamed = 3;
  std::string text;
  size_t named = 0;
  for (const auto& [wanted, since] : pending_) {
    if (++named > kMostNamed) return text + ", ..";
    const TileKey& key = wanted.key;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since;
    std::array<char, 160> one{};
    std::snprintf(one.data(), one.size(), "%s%s of %d:%d, level %d at %d, %d, for %.1f s", named > 1 ? "; " : "",
                  wanted.mask_id == 0    ? (key.reduction == analysis::TileReduction::kMax ? "maxima" : "means")
                  : wanted.other_id == 0 ? "mask"
                                         : "two masks",
                  key.head.layer, key.head.head, key.level, key.x, key.y, waited.count());
    text += one.data();
  }
  return text;
}

void TileCache::CancelAll() {
  if (workbench_ != nullptr && !pending_.empty()) workbench_->CancelTiles(view_);
  pending_.clear();
}

template <typename Tile, typename Lookup>
TileSample<Tile> TileCache::FindCovering(const TileKey& key, const Lookup& lookup) const {
  TileSample<Tile> sample;
  const int32_t top = analysis::MaxLevel(rows_.num_rows(), rows_.num_columns());
  for (int32_t up = 0; key.level + up <= top; ++up) {
    TileKey ancestor = key;
    ancestor.level = key.level + up;
    ancestor.x = key.x >> up;
    ancestor.y = key.y >> up;
    const std::shared_ptr<const Tile> tile = lookup(ancestor);
    if (!tile) continue;
    const auto share = static_cast<float>(std::ldexp(1.0, -up));
    sample.tile = tile;
    sample.u_begin = static_cast<float>(key.x - (ancestor.x << up)) * share;
    sample.v_begin = static_cast<float>(key.y - (ancestor.y << up)) * share;
    sample.u_end = sample.u_begin + share;
    sample.v_end = sample.v_begin + share;
    sample.levels_coarser = up;
    return sample;
  }
  return sample;
}

TileSample<analysis::TileData> TileCache::Find(const TileKey& key) {
  return FindCovering<analysis::TileData>(key, [&](const TileKey& ancestor) { return Use(ancestor); });
}

template <typename Tile>
TileSample<Tile> TileCache::FindOfMask(const Masks<Tile>& masks, int64_t bytes, const TileKey& key) const {
  TileKey mask_key = key;
  mask_key.reduction = analysis::TileReduction::kMax;
  if (mask_id_ != 0) {
    if (auto exact = UseMask(masks, bytes, {mask_id_, other_mask_id_, mask_key})) return {.tile = std::move(exact)};
  }
  for (const bool old : {true, false}) {
    const int64_t mask_id = old ? old_mask_id_ : mask_id_, other_id = old ? old_other_mask_id_ : other_mask_id_;
    if (mask_id == 0) continue;
    auto sample = FindCovering<Tile>(mask_key, [&](const TileKey& ancestor) {
      return UseMask(masks, bytes, {mask_id, other_id, ancestor});
    });
    sample.from_old_mask = old;
    if (sample.tile) return sample;
  }
  return {};
}

TileSample<analysis::MaskTile> TileCache::FindMask(const TileKey& key) {
  return FindOfMask(masks_, kMaskTileBytes, key);
}

TileSample<analysis::MaskPairTile> TileCache::FindMaskPair(const TileKey& key) {
  return FindOfMask(pairs_, kPairTileBytes, key);
}

}  // namespace headscope::ui
