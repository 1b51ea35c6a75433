// SPDX-License-Identifier: Apache-2.0
// Tiles of the head on show: the coarse levels from one pass over the head, kept as long as the memory budget has room
// for them; the fine ones one by one, on demand.
//
// Lives on the UI thread. A coarse pass makes maxima and means together where both are asked for in one turn of it, as
// a map of maxima with its profiles does. It outlives the view that asked for it (every view of the head needs it), and
// ends when another head is asked for; fine tiles end with their view.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/mask_pair.h"
#include "analysis/task_queue.h"
#include "analysis/tiles.h"
#include "opened_trace.h"

namespace headscope::app {

// Of a view, in tags of its work.
std::string ViewName(ui::MapView view);

class TileSource {
 public:
  using Post = std::function<void(std::function<void()>)>;
  // `view`: whose tiles they are; another view's are not cancelled with them. `queue` and `memory` outlive the source;
  // `post` runs a function later on the UI thread; `failed` takes one sentence.
  TileSource(ui::MapView view, analysis::TaskQueue* queue, ui::MemoryBudget* memory, Post post, ui::ErrorReply failed);

  void SetTrace(std::shared_ptr<OpenedTrace> trace);
  // Every reply comes, unless it is cancelled: null where the tile could not be made.
  void Request(const analysis::TileKey& key, int32_t priority, ui::Reply<analysis::TilePtr> done);
  // Masks that are not held any more are null.
  void RequestMask(const analysis::KeptMask* held, const analysis::TileKey& key, int32_t priority,
                   ui::Reply<analysis::MaskTilePtr> done);
  void RequestMaskPair(const analysis::KeptMask* first, const analysis::KeptMask* second, const analysis::TileKey& key,
                       int32_t priority, ui::Reply<analysis::MaskPairTilePtr> done);
  void Cancel();  // no reply comes after it to a request before it

 private:
  struct Waiter {
    analysis::TileKey key;
    ui::Reply<analysis::TilePtr> done;
  };
  using PyramidKey = std::pair<analysis::HeadId, analysis::TileReduction>;
  // A pass under way, and what a quick one over a part of the rows has found meanwhile.
  struct Pass {
    std::vector<Waiter> waiters;
    std::map<analysis::TileKey, analysis::TilePtr> preview;
  };
  using Pyramid = std::map<analysis::TileKey, std::weak_ptr<const analysis::TileData>>;

  // A pass that begins when the requests of this turn have come.
  struct Due {
    analysis::HeadId head;
    std::vector<analysis::TileReduction> reductions;
    int32_t priority = 0;
  };

  // The finest level that a head's coarse pass makes: at most 8 x 8 tiles.
  int32_t FirstCoarseLevel() const;
  void Schedule(const PyramidKey& key, int32_t priority);
  void StartDue();
  // The pass over all rows; the preview of StartDue comes before it.
  void StartExactPyramid(const Due& due);
  void FinishPreview(const Due& due, std::vector<analysis::TilePtr> tiles);
  void FinishPyramid(const Due& due, std::vector<analysis::TilePtr> tiles);
  // In a turn of its own, unless that is after Cancel().
  template <typename Tile>
  void Deliver(ui::Reply<Tile> done, Tile tile);
  std::string NextTag();
  std::string HeadTag(analysis::HeadId head) const;  // how the tags of its passes begin
  std::string PyramidTag(const Due& due) const;

  const ui::MapView map_;
  const std::string tile_prefix_, pyramid_prefix_;
  analysis::TaskQueue* const queue_;
  ui::MemoryBudget* const memory_;
  const Post post_;
  const ui::ErrorReply failed_;
  std::shared_ptr<OpenedTrace> trace_;
  int64_t view_ = 0;                        // counts Cancel() calls
  int64_t request_ = 0;                     // makes tags different
  std::map<PyramidKey, Pyramid> pyramids_;  // what the budget has left of them
  std::map<PyramidKey, Pass> waiting_;      // passes due or under way
  std::optional<Due> due_;
};

}  // namespace headscope::app
