// SPDX-License-Identifier: Apache-2.0
// The tiles of the head on show: what is held, what is on its way, and what to draw meanwhile.
//
// Every frame says what it wants to show (Want). Missing tiles are requested from the workbench, nearest to the view's
// centre first; requests that no view wants any more are cancelled. Until a tile is there, the nearest coarser one that
// covers it stands in and says how much coarser it is (Find). The coarsest tile of the head is always requested first
// and stays, so something can be drawn at any zoom; the others stay as long as the workbench's memory budget has room
// for them.
//
// A changed mask replaces the old one tile by tile, so that the overlay neither flickers nor waits for its slowest
// tile.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "causal_rows.h"
#include "ui/workbench.h"
#include "view_transform.h"

namespace headscope::ui {

// A tile to sample, and where in it the wanted tile's area lies: texture coordinates of the area's corners in [0, 1].
template <typename Tile>
struct TileSample {
  std::shared_ptr<const Tile> tile;  // null: nothing that covers the area is held
  float u_begin = 0, v_begin = 0, u_end = 1, v_end = 1;
  int32_t levels_coarser = 0;  // 0: the wanted tile itself
  bool from_old_mask = false;
};

// What one frame shows.
struct TileDemand {
  analysis::TileReduction reduction = analysis::TileReduction::kMax;
  TileRange tiles;           // of the map
  bool mask = false;         // also the mask's tiles
  TileRange profile_tiles;   // by mean, for the profiles; empty range: none
  TileRange compared_tiles;  // of another level, for a comparison with a shorter map; empty range: none
  double center_row = 0, center_column = 0;
};

class TileCache {
 public:
  explicit TileCache(MapView view = MapView::kFirst);
  ~TileCache();
  TileCache(const TileCache&) = delete;
  TileCache& operator=(const TileCache&) = delete;

  // Called when a tile has come: a frame is due.
  void SetArrivalHandler(std::function<void()> handler) { on_arrival_ = std::move(handler); }

  // Told how long each tile took from its request to its arrival.
  void SetWatch(std::function<void(double milliseconds)> watch) { watch_ = std::move(watch); }

  void SetWorkbench(Workbench* workbench);
  // Forgets all tiles: another trace.
  void Clear();
  // Tiles of other heads stay cached, their requests are dropped.
  void SetHead(analysis::HeadId head, const CausalRows& rows);
  // The mask that Want requests tiles of; 0 for none. With another mask of the same head, tiles of how the two differ
  // are requested in place of the mask's own.
  void SetMask(int64_t mask_id, int64_t other_mask_id = 0);

  void Want(const TileDemand& demand);

  TileSample<analysis::TileData> Find(const analysis::TileKey& key);
  TileSample<analysis::MaskTile> FindMask(const analysis::TileKey& key);
  TileSample<analysis::MaskPairTile> FindMaskPair(const analysis::TileKey& key);

  // Tiles on their way.
  int64_t num_pending() const { return static_cast<int64_t>(pending_.size()); }
  // A few of them, in words for whoever looks for a fault.
  std::string DescribePending() const;

 private:
  struct MaskKey {
    int64_t mask_id = 0;   // 0: a tile of probabilities
    int64_t other_id = 0;  // 0: of one mask alone
    analysis::TileKey key;
    friend constexpr auto operator<=>(const MaskKey&, const MaskKey&) = default;
  };
  struct Request {
    MaskKey key;
    int32_t priority = 0;
  };

  std::vector<Request> WantedRequests(const TileDemand& demand) const;
  void AddRange(const TileRange& range, analysis::TileReduction reduction, bool of_mask, int32_t base_priority,
                const TileDemand& demand, std::vector<Request>* requests) const;
  bool Held(const MaskKey& key) const;
  // The tile, as a use of it; null when it is not held.
  std::shared_ptr<const analysis::TileData> Use(const analysis::TileKey& key);
  template <typename Tile>
  using Masks = std::map<MaskKey, std::weak_ptr<const Tile>>;
  template <typename Tile>
  std::shared_ptr<const Tile> UseMask(const Masks<Tile>& masks, int64_t bytes, const MaskKey& key) const;
  // The present mask's own tile, else the old mask's, else whatever coarser tile of either covers it.
  template <typename Tile>
  TileSample<Tile> FindOfMask(const Masks<Tile>& masks, int64_t bytes, const analysis::TileKey& key) const;
  void KeepOnShow(const analysis::TilePtr& tile);
  // Lets go of the masks' tiles that the predicate names.
  template <typename Predicate>
  void DropMasks(const Predicate& drops);
  void Send(const Request& request);
  void CancelAll();
  template <typename Tile, typename Lookup>
  TileSample<Tile> FindCovering(const analysis::TileKey& key, const Lookup& lookup) const;

  const MapView view_;
  Workbench* workbench_ = nullptr;
  analysis::HeadId head_;
  CausalRows rows_;
  bool has_head_ = false;
  int64_t mask_id_ = 0, other_mask_id_ = 0;
  int64_t old_mask_id_ = 0, old_other_mask_id_ = 0;
  // What the workbench's memory budget holds.
  std::map<analysis::TileKey, std::weak_ptr<const analysis::TileData>> tiles_;
  Masks<analysis::MaskTile> masks_;
  Masks<analysis::MaskPairTile> pairs_;
  std::vector<analysis::TilePtr> coarsest_;                           // of the head on show, one a reduction
  std::map<MaskKey, std::chrono::steady_clock::time_point> pending_;  // since when
  std::set<MaskKey> failed_;  // came back empty: not asked for again before the head or the mask changes
  std::function<void()> on_arrival_;
  std::function<void(double milliseconds)> watch_;
  std::shared_ptr<TileCache*> self_;  // replies hold it weakly: a reply to a destroyed cache is dropped
};

}  // namespace headscope::ui
