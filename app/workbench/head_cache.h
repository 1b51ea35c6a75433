// The heads that were looked at last, in memory. Callable from any thread; a head asked for twice at the same time is
// read once.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <mutex>

#include "analysis/head_tensors.h"
#include "outcome.h"

namespace headscope::app {

class HeadCache {
 public:
  // `trace` must outlive the cache. Heads beyond `capacity_bytes` leave it, least recently used first; the newest
  // always stays.
  HeadCache(const data::TraceReader& trace, int64_t capacity_bytes);

  // Reads the head when it is not there, and throws as analysis::LoadHead. Whoever waits for another thread's reading
  // gets its refusal as a data::TraceError.
  analysis::HeadTensorsPtr Get(analysis::HeadId id);
  // Never reads and never waits: nullptr when the head is not there (yet).
  analysis::HeadTensorsPtr TryGet(analysis::HeadId id);
  // For passes over all heads, which would only push the others out: reads past the cache.
  analysis::HeadTensorsPtr GetUncached(analysis::HeadId id, analysis::HeadPlace place = analysis::HeadPlace::kCpu);

 private:
  using Reading = Outcome<analysis::HeadTensorsPtr>;
  struct Entry {
    std::shared_future<Reading> reading;
    int64_t last_used = 0;
    int64_t bytes = 0;  // 0 until read
  };
  // LoadHead, and word of it to those who wait.
  analysis::HeadTensorsPtr Read(analysis::HeadId id, std::promise<Reading>* promise);
  void EvictBeyondCapacity();

  const data::TraceReader& trace_;
  const int64_t capacity_bytes_;
  std::mutex mutex_;
  std::map<analysis::HeadId, Entry> entries_;
  int64_t clock_ = 0;
};

}  // namespace headscope::app
