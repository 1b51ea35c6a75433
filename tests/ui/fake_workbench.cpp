// SPDX-License-Identifier: Apache-2.0
#include "fake_workbench.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

namespace headscope::ui::testing {

using analysis::kTileSize;

SyntheticHead::SyntheticHead(int64_t num_tokens, int32_t head) : head_(head) {
  lse_.reserve(static_cast<size_t>(num_tokens));
  for (int64_t row = 0; row < num_tokens; ++row) {
    double sum = 0;
    for (int64_t column = 0; column <= row; ++column) sum += std::exp(Logit(row, column));
    lse_.push_back(std::log(sum));
  }
}

double SyntheticHead::Logit(int64_t row, int64_t column) const {
  const auto distance = static_cast<double>(row - column);
  double logit = -0.5 * std::log1p(distance);
  if (column == 0) logit += 4;
  if (row - column == 64) logit += 3;
  if (column % 97 == 96) logit += 2;
  return logit * (1 + 0.25 * head_);
}

double SyntheticHead::Probability(int64_t row, int64_t column) const {
  return column > row ? 0 : std::exp(Logit(row, column) - lse_[static_cast<size_t>(row)]);
}

namespace {

// Heads and tiles of one length are the same in every test, and their logarithms and exponentials a sixth of what the
// tests of the canvas take: a program computes each once.
constexpr size_t kMostTiles = 64;  // of 256 KiB

const std::vector<SyntheticHead>& HeadsOf(int64_t num_tokens) {
  static std::map<int64_t, std::vector<SyntheticHead>> known;
  std::vector<SyntheticHead>& heads = known[num_tokens];
  if (heads.empty()) {
    for (int32_t head = 0; head < 2; ++head) heads.emplace_back(num_tokens, head);
  }
  return heads;
}

std::vector<float> TexelsOf(const SyntheticHead& head, int64_t num_tokens, const analysis::TileKey& key) {
  std::vector<float> log2_p(size_t{kTileSize} * kTileSize, -std::numeric_limits<float>::infinity());
  const int64_t size = int64_t{1} << key.level;
  for (int64_t y = 0; y < kTileSize; ++y) {
    for (int64_t x = 0; x < kTileSize; ++x) {
      const int64_t row_begin = (key.y * int64_t{kTileSize} + y) * size,
                    column_begin = (key.x * int64_t{kTileSize} + x) * size;
      double greatest = 0, sum = 0;
      int64_t scores = 0;
      for (int64_t row = row_begin; row < std::min(row_begin + size, num_tokens); ++row) {
        for (int64_t column = column_begin; column < std::min(column_begin + size, row + 1); ++column) {
          const double p = head.Probability(row, column);
          greatest = std::max(greatest, p);
          sum += p;
          ++scores;
        }
      }
      if (scores == 0) continue;
      const double value =
          key.reduction == analysis::TileReduction::kMax ? greatest : sum / static_cast<double>(scores);
      log2_p[static_cast<size_t>(y * kTileSize + x)] = static_cast<float>(std::log2(value));
    }
  }
  return log2_p;
}

std::string Tag(const char* kind, MapView view) {
  return std::string(kind) + (view == MapView::kFirst ? "" : " " + std::to_string(static_cast<int>(view)));
}

}  // namespace

FakeWorkbench::FakeWorkbench(int64_t num_tokens) : num_tokens_(num_tokens), heads_(HeadsOf(num_tokens)) {
  kernels::MethodSpec dense;
  dense.name = "dense";
  dense.title = "Dense";
  dense.family = "dense";
  dense.baseline = true;
  kernels::MethodSpec band;
  band.name = "band";
  band.title = "Band with sinks";
  band.family = "static pattern";
  band.summary = "Keeps the newest keys and the first.";
  band.parameters = {
      {.name = "window",
       .default_value = 64,
       .minimum = 1,
       .maximum = 4096,
       .step = 2,
       .logarithmic = true,
       .unit = kernels::Unit::kTokens,
       .help = "newest keys kept",
       .cost = "time in proportion",
       .role = kernels::ParameterRole::kBudget},
      {.name = "sinks",
       .default_value = 4,
       .maximum = 64,
       .unit = kernels::Unit::kTokens,
       .help = "first keys kept",
       .cost = "little"},
      {.name = "share",
       .type = kernels::ParameterType::kReal,
       .default_value = 0.5,
       .step = 0.05,
       .help = "not used by the band",
       .cost = "nothing"},
      {.name = "exact", .type = kernels::ParameterType::kFlag, .help = "not used by the band", .cost = "nothing"},
  };
  kernels::MethodSpec decode;
  decode.name = "newest";
  decode.title = "Newest tokens";
  decode.phase = kernels::Phase::kDecode;
  decode.family = "static pattern";
  decode.parameters = {{.name = "local",
                        .default_value = 32,
                        .minimum = 1,
                        .maximum = 4096,
                        .step = 2,
                        .logarithmic = true,
                        .unit = kernels::Unit::kTokens,
                        .help = "newest keys kept",
                        .cost = "time"},
                       {.name = "order",
                        .type = kernels::ParameterType::kChoice,
                        .maximum = 2,
                        .help = "not used",
                        .cost = "nothing",
                        .choices = {"by place", "by score", "at random"}}};
  kernels::MethodSpec dense_decode = dense;
  dense_decode.phase = kernels::Phase::kDecode;
  methods_ = {dense, band, dense_decode, decode};
}

TraceSummary FakeWorkbench::Summary() const {
  TraceSummary summary;
  summary.path = "synthetic.h5";
  summary.model_name = "synthetic";
  summary.num_tokens = summary.num_rows = num_tokens_;
  summary.num_layers = 1;
  summary.num_qo_heads = 2;
  summary.num_kv_heads = 1;
  summary.head_dim = 64;
  summary.heads = {{.layer = 0, .head = 0}, {.layer = 0, .head = 1}};
  summary.kv_head_of_head = {0, 0};
  summary.num_decode_rows = num_decode_rows;
  for (int64_t token = 0; token < num_tokens_; ++token) {
    summary.token_text.push_back("tok" + std::to_string(token));
    summary.row_positions.push_back(static_cast<int32_t>(token));
  }
  return summary;
}

void FakeWorkbench::Post(const std::string& tag, std::function<void()> act) {
  Waiting waiting{tag, generations_[tag], std::move(act)};
  if (!poster_) {
    waiting_.push_back(std::move(waiting));
    return;
  }
  if (tag.starts_with("tile") && hold_tiles_) return;
  poster_([this, waiting = std::move(waiting)] {
    if (IsCurrent(waiting)) waiting.act();
  });
}

bool FakeWorkbench::IsCurrent(const Waiting& waiting) const {
  return waiting.generation == generations_.at(waiting.tag);
}

int FakeWorkbench::DeliverReplies(int count) {
  int delivered = 0;
  while (!waiting_.empty() && delivered < count) {
    const Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    if (!IsCurrent(waiting)) continue;
    waiting.act();
    ++delivered;
  }
  return delivered;
}

void FakeWorkbench::OpenTrace(const std::string&, Reply<TraceSummary> done, ErrorReply) {
  Post("run", [this, done] { done(Summary()); });
}

void FakeWorkbench::RequestStatistics(Reply<analysis::HeadStatistics>, std::function<void()> finished,
                                      Reply<ProgressReport>) {
  Post("run", finished);
}

analysis::TilePtr FakeWorkbench::MakeTile(const analysis::TileKey& key) const {
  static std::map<std::pair<int64_t, analysis::TileKey>, std::vector<float>> known;
  if (known.size() > kMostTiles) known.clear();
  std::vector<float>& texels = known[{num_tokens_, key}];
  if (texels.empty()) texels = TexelsOf(Head(key.head.head), num_tokens_, key);
  auto tile = std::make_shared<analysis::TileData>();
  tile->key = key;
  tile->log2_p = texels;
  return tile;
}

analysis::MaskTilePtr FakeWorkbench::MakeMaskTile(int64_t mask_id, const analysis::TileKey& key) const {
  const Band band = masks_[static_cast<size_t>(mask_id - 1)];
  auto tile = std::make_shared<analysis::MaskTile>();
  tile->key = key;
  tile->kept.assign(size_t{kTileSize} * kTileSize, 0);
  const int64_t size = int64_t{1} << key.level;
  for (int64_t y = 0; y < kTileSize; ++y) {
    for (int64_t x = 0; x < kTileSize; ++x) {
      const int64_t row_begin = (key.y * int64_t{kTileSize} + y) * size,
                    column_begin = (key.x * int64_t{kTileSize} + x) * size;
      int64_t kept = 0, scores = 0;
      const int64_t row_end = std::min(row_begin + size, num_tokens_);
      if (row_end <= band.first_row) tile->kept[static_cast<size_t>(y * kTileSize + x)] = 255;
      for (int64_t row = std::max(row_begin, band.first_row); row < row_end; ++row) {
        for (int64_t column = column_begin; column < std::min(column_begin + size, row + 1); ++column) {
          kept += Kept(row, column, band.window, band.sinks) ? 1 : 0;
          ++scores;
        }
      }
      if (scores > 0) tile->kept[static_cast<size_t>(y * kTileSize + x)] = static_cast<uint8_t>(kept * 255 / scores);
    }
  }
  return tile;
}

void FakeWorkbench::RequestTile(MapView view, const analysis::TileKey& key, int32_t priority,
                                Reply<analysis::TilePtr> done) {
  tile_requests.push_back({0, key, priority});
  const auto tile = [this, key, done] { done(MakeTile(key)); };
  const auto preview = [this, key, done] {
    auto made = std::make_shared<analysis::TileData>(*MakeTile(key));
    made->preview = true;
    // Of some of the rows: not the numbers of all.
    for (float& value : made->log2_p) value -= kPreviewLess;
    done(made);
  };
  if (previews == Previews::kFirst || previews == Previews::kAlone) Post(Tag("tile", view), preview);
  if (previews != Previews::kAlone) Post(Tag("tile", view), tile);
  if (previews == Previews::kLate) Post(Tag("tile", view), preview);
}

void FakeWorkbench::RequestMaskTile(MapView view, int64_t mask_id, const analysis::TileKey& key, int32_t priority,
                                    Reply<analysis::MaskTilePtr> done) {
  tile_requests.push_back({mask_id, key, priority});
  Post(Tag("tile", view), [this, mask_id, key, done] { done(MakeMaskTile(mask_id, key)); });
}

std::array<int64_t, analysis::kNumKeptBy> FakeWorkbench::KeptOfRow(int64_t first_mask, int64_t second_mask, int64_t row,
                                                                   int64_t column_begin, int64_t column_end) const {
  const Band &first = masks_[static_cast<size_t>(first_mask - 1)],
             &second = masks_[static_cast<size_t>(second_mask - 1)];
  std::array<int64_t, analysis::kNumKeptBy> kept{};
  for (int64_t column = column_begin; column < std::min(column_end, row + 1); ++column) {
    const bool a = Kept(row, column, first.window, first.sinks), b = Kept(row, column, second.window, second.sinks);
    if (a || b) ++kept[a && b ? 2 : a ? 0 : 1];
  }
  return kept;
}

void FakeWorkbench::RequestMaskPairTile(MapView view, int64_t first_mask, int64_t second_mask,
                                        const analysis::TileKey& key, int32_t priority,
                                        Reply<analysis::MaskPairTilePtr> done) {
  tile_requests.push_back({first_mask, key, priority});
  Post(Tag("tile", view), [this, first_mask, second_mask, key, done] {
    auto tile = std::make_shared<analysis::MaskPairTile>();
    tile->key = key;
    const int64_t size = int64_t{1} << key.level;
    for (int64_t texel = 0; texel < int64_t{kTileSize} * kTileSize; ++texel) {
      const int64_t row_begin = (key.y * int64_t{kTileSize} + texel / kTileSize) * size,
                    column_begin = (key.x * int64_t{kTileSize} + texel % kTileSize) * size;
      std::array<int64_t, analysis::kNumKeptBy> kept{};
      int64_t pairs = 0;
      for (int64_t row = row_begin; row < std::min(row_begin + size, num_tokens_); ++row) {
        const auto of_row = KeptOfRow(first_mask, second_mask, row, column_begin, column_begin + size);
        for (size_t by = 0; by < kept.size(); ++by) kept[by] += of_row[by];
        pairs += std::clamp<int64_t>(row + 1 - column_begin, 0, size);
      }
      for (const int64_t count : kept) tile->kept.push_back(static_cast<uint8_t>(pairs == 0 ? 0 : count * 255 / pairs));
    }
    done(tile);
  });
}

void FakeWorkbench::RequestMaskOverlap(int64_t first_mask, int64_t second_mask, Reply<analysis::MaskOverlap> done) {
  ++generations_["overlap"];
  analysis::MaskOverlap overlap;
  for (int64_t row = 0; row < num_tokens_; ++row) {
    const auto [first, second, both] = KeptOfRow(first_mask, second_mask, row, 0, num_tokens_);
    overlap.first_alone += first;
    overlap.second_alone += second;
    overlap.both += both;
    overlap.pairs += row + 1;
  }
  Post("overlap", [overlap, done] { done(overlap); });
}

void FakeWorkbench::CancelTiles(MapView view) {
  ++num_cancelled_tile_batches;
  ++generations_[Tag("tile", view)];
}

void FakeWorkbench::RequestRow(analysis::HeadId head, int64_t row, Reply<std::vector<float>> done) {
  ++generations_["row"];
  std::vector<float> probabilities;
  for (int64_t column = 0; column < num_tokens_; ++column)
    probabilities.push_back(static_cast<float>(Head(head.head).Probability(row, column)));
  Post("row", [probabilities, done] { done(probabilities); });
}

void FakeWorkbench::RequestThumbnail(analysis::HeadId head, Reply<ThumbnailPtr> done, ErrorReply) {
  ++num_thumbnails;
  auto thumbnail = std::make_shared<Thumbnail>();
  constexpr int64_t kSide = Thumbnail::kSide;
  for (int64_t pixel = 0; pixel < kSide * kSide; ++pixel) {
    const int64_t row = pixel / kSide * num_tokens_ / kSide, column = pixel % kSide * num_tokens_ / kSide;
    thumbnail->log2_p.push_back(static_cast<float>(std::log2(Head(head.head).Probability(row, column))));
  }
  Post("thumbnail", [thumbnail, done] { done(thumbnail); });
}

void FakeWorkbench::TuneHeads(const std::vector<analysis::HeadId>& heads, const TuneSettings& settings,
                              const HeadsReplies<TunedSetting>& replies) {
  ++generations_["tune"];
  last_tuning = settings;
  last_tuned_heads = heads;
  for (const analysis::HeadId& head : heads) {
    ++num_tuned;
    TunedSetting tuned;
    tuned.head = head;
    tuned.method = static_cast<size_t>(head.head) % settings.methods.size();  // each head another one
    tuned.values = settings.methods[tuned.method].values;
    for (const kernels::MethodSpec& spec : methods_) {
      if (spec.name == settings.methods[tuned.method].name)
        static_cast<void>(tuned.values.Set(spec, "window", kFoundWindow + head.head));
    }
    tuned.reached = !target_out_of_reach;
    tuned.kept_fraction = 0.25 + 0.5 * head.head;
    tuned.mass.mean = 0.9;
    if (!settings.checks.empty() || !settings.check_rows.empty()) {
      tuned.checked.emplace();
      tuned.checked->reached = head.head == 0;
      tuned.checked->kept_fraction = tuned.kept_fraction;
      tuned.checked->mass.mean = 0.8;
    }
    if (!settings.ranges.empty()) {
      TunedSetting shorter = tuned;
      shorter.lengths = {0, 100};
      shorter.is_open_traces = false;
      Post("tune", [shorter, replies] { replies.one(shorter); });
      tuned.lengths = {100, TunedSetting::Lengths::kNoEnd};
    }
    Post("tune", [this, tuned, replies] {
      if (std::exchange(fail_next_run, false)) {
        replies.failed({tuned.head, "The device ran out of memory: choose fewer rows."});
      } else {
        replies.one(tuned);
      }
    });
  }
  Post("tune", replies.finished);
}

void FakeWorkbench::CancelTuning() {
  ++generations_["tune"];
}

Exact FakeWorkbench::ExactScore(analysis::HeadId head, int64_t row, int64_t column) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return {.probability = head_is_read ? Head(head.head).Probability(row, column) : kUnknown,
          .score = head_is_read ? Head(head.head).Logit(row, column) : kUnknown,
          .causal = column <= row,
          .in_window = model_window == 0 || row - column < model_window};
}

void FakeWorkbench::RequestLiveRun(MapView view, analysis::HeadId, const std::string&, const kernels::ParameterValues&,
                                   int64_t mask_id, Reply<analysis::LiveRun> done, ErrorReply failed) {
  ++num_live_runs;
  const std::string tag = Tag("live", view);
  ++generations_[tag];
  if (fail_next_live_run) {
    fail_next_live_run = false;
    Post(tag, [failed] { failed("The kernel does not follow the sliders here."); });
    return;
  }
  // Whose mask it was of is told by its time.
  analysis::LiveRun run;
  run.attend_ms = static_cast<double>(mask_id);
  run.dense_attend_ms = 1000;
  run.num_rows = run.checked_rows = num_tokens_;
  if (tell_live_errors_first) {
    analysis::LiveRun untimed = run;
    untimed.attend_ms = untimed.dense_attend_ms = 0;
    Post(tag, [untimed, done] { done(untimed); });
  }
  Post(tag, [run, done] { done(run); });
}

void FakeWorkbench::CancelLiveRun(MapView view) {
  ++generations_[Tag("live", view)];
  ++num_cancelled_live_runs;
}

void FakeWorkbench::RequestMask(MapView view, analysis::HeadId head, const std::string& method,
                                const kernels::ParameterValues& values, Reply<LiveMask> done, ErrorReply failed) {
  ++num_mask_requests;
  const std::string tag = Tag("mask", view);
  ++generations_[tag];
  last_method = method;
  if (fail_next_mask) {
    fail_next_mask = false;
    Post(tag, [failed] { failed("method band: no room: raise the window."); });
    return;
  }
  const Band band = method == "band"     ? Band{values.Integer("window"), values.Integer("sinks"), 0}
                    : method == "newest" ? Band{values.Integer("local"), 0, num_tokens_ - kSteps}
                                         : Band{num_tokens_, 0, 0};
  masks_.push_back(band);
  LiveMask mask;
  mask.mask_id = static_cast<int64_t>(masks_.size());
  mask.summary.head = head;
  mask.summary.method = method;
  for (const kernels::MethodSpec& spec : methods_) {
    if (spec.name == method) mask.summary.parameters = values.ToString(spec);
  }
  mask.summary.cra_min = 1;
  auto steps = std::make_shared<analysis::KeptSteps>();
  steps->first_row = band.first_row;
  int64_t kept_pairs = 0, pairs = 0;
  double total = 0;
  for (int64_t row = band.first_row; row < num_tokens_; ++row) {
    const auto position = static_cast<int32_t>(row);
    const auto oldest = static_cast<int32_t>(std::max<int64_t>(row + 1 - band.window, 0));
    steps->steps.push_back({position, {0, position + 1}, {{oldest, position + 1}}});
    pairs += row + 1;
    double mass = 0;
    for (int64_t column = 0; column <= row; ++column) {
      if (!Kept(row, column, band.window, band.sinks)) continue;
      mass += Head(head.head).Probability(row, column);
      ++kept_pairs;
    }
    mask.kept_mass.push_back(static_cast<float>(mass));
    total += mass;
    if (mass < mask.summary.cra_min) {
      mask.summary.cra_min = mass;
      mask.summary.worst_row = row;
    }
  }
  mask.summary.cra_mean = total / static_cast<double>(mask.kept_mass.size());
  mask.summary.kept_fraction = static_cast<double>(kept_pairs) / static_cast<double>(pairs);
  mask.distribution = analysis::DistributeMass(mask.kept_mass);
  mask.summary.cra_p5 = mask.distribution.fifth_percentile;
  mask.distribution.worst_row += band.first_row;
  if (method == "newest") mask.steps = std::move(steps);
  if (mask.steps) mask.chosen_per = kernels::ChosenPer::kPlace;
  mask.outside_mass = outside_mass;
  Post(tag, [mask, done] { done(mask); });
}

void FakeWorkbench::RequestLostKeys(analysis::HeadId head, int64_t mask_id, int64_t row,
                                    Reply<std::vector<LostKey>> done) {
  const Band band = masks_[static_cast<size_t>(mask_id - 1)];
  std::vector<LostKey> lost;
  for (int64_t column = 0; column <= row; ++column) {
    if (!Kept(row, column, band.window, band.sinks)) lost.push_back({column, Head(head.head).Probability(row, column)});
  }
  std::sort(lost.begin(), lost.end(), [](const auto& a, const auto& b) { return a.probability > b.probability; });
  lost.resize(std::min(lost.size(), kMostLostKeys));
  Post("mask", [lost, done] { done(lost); });
}

void FakeWorkbench::RequestFigure(const FigureDrawing& drawing, double pixels_per_point, Reply<FigurePicturePtr> done,
                                  ErrorReply failed, Reply<ProgressReport> progress) {
  CancelFigure();
  ++num_figures;
  last_figure = drawing;
  ProgressReport report;
  report.fraction = 0.5;
  progress(report);
  Post("figure", [drawing, pixels_per_point, done, failed, fails = std::exchange(fail_next_figure, false)] {
    if (fails) return failed("The figure is not made: it is a test.");
    FigurePicture picture;
    picture.title = drawing.name;
    picture.width = static_cast<int32_t>(pixels_per_point * drawing.width);
    picture.height = static_cast<int32_t>(pixels_per_point * drawing.height);
    picture.rgb.assign(static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height), 0xff808080u);
    done(std::make_shared<const FigurePicture>(std::move(picture)));
  });
}

void FakeWorkbench::MeetTarget(analysis::HeadId, const std::string& method, const kernels::ParameterValues& values,
                               double target, Reply<kernels::ParameterValues> done, Reply<Refusal> failed,
                               Reply<ProgressReport>) {
  last_target = target;
  kernels::ParameterValues found = values;
  for (const kernels::MethodSpec& spec : methods_) {
    if (spec.name == method) static_cast<void>(found.Set(spec, "window", kFoundWindow));
  }
  const bool fails = std::exchange(fail_next_search, false);
  Post("search", [found, done, failed, fails, out_of_reach = target_out_of_reach] {
    if (fails) {
      failed({"The trace can no longer be read: open it again.", false});
    } else if (out_of_reach) {
      failed({"The target is out of reach: lower it.", true});
    } else {
      done(found);
    }
  });
}

analysis::MethodResult FakeWorkbench::ResultOf(analysis::HeadId head, const std::string& method,
                                               const kernels::ParameterValues& values, int32_t repeats) {
  ++num_runs;
  last_method = method;
  last_repeats = repeats;
  for (const kernels::MethodSpec& spec : methods_) {
    if (spec.name == method) last_parameters = values.ToString(spec);
  }
  analysis::MethodResult result;
  result.head = head;
  result.method = method;
  result.parameters = last_parameters;
  result.phase = kernels::Phase::kPrefill;
  result.baseline_method = "dense";
  result.device = NamedCpu();
  result.kept_fraction = 0.25;
  result.select = {.median_ms = 1, .mad_ms = 0.1, .repeats = repeats};
  result.attend = {.median_ms = 3, .mad_ms = 0.1, .repeats = repeats};
  result.dense_attend = {.median_ms = 12, .mad_ms = 0.2, .repeats = repeats};
  result.speedup = 3;
  result.relative_error = 0.01;
  result.note = run_note;
  return result;
}

void FakeWorkbench::RunMethod(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                              int32_t repeats, Reply<analysis::MethodResult> done, Reply<Refusal> failed,
                              Reply<ProgressReport> progress) {
  ++generations_["run"];
  const analysis::MethodResult result = ResultOf(head, method, values, repeats);
  Post("run", [progress] {
    progress({.stage = "dense attends, 1 of 2",
              .fraction = 0.5,
              .rate = 0,
              .unit = ProgressUnit::kPercent,
              .remaining_s = 1});
  });
  if (hold_run) return;
  if (unsupported.contains(method)) {
    Post("run", [failed, method] { failed({method + " needs what was not recorded: record it.", true}); });
    return;
  }
  if (std::exchange(fail_next_run, false)) {
    Post("run", [failed] { failed({"The device ran out of memory: choose fewer rows.", false}); });
    return;
  }
  Post("run", [result, done] { done(result); });
}

void FakeWorkbench::MeasureHeads(const std::vector<analysis::HeadId>& heads, const std::string& method,
                                 const kernels::ParameterValues& values, int32_t repeats,
                                 const HeadsReplies<analysis::MethodResult>& replies) {
  ++generations_["run"];
  for (const analysis::HeadId& head : heads) {
    const analysis::MethodResult result = ResultOf(head, method, values, repeats);
    if (std::exchange(fail_next_run, false)) {
      Post("run", [replies, head] { replies.failed({head, "The device ran out of memory: choose fewer rows."}); });
    } else {
      Post("run", [replies, result] { replies.one(result); });
    }
  }
  Post("run", replies.finished);
}

void FakeWorkbench::MeasureSettings(const std::vector<HeadSetting>& heads, int32_t repeats,
                                    const HeadsReplies<analysis::MethodResult>& replies) {
  ++generations_["run"];
  last_settings = heads;
  for (const HeadSetting& setting : heads) {
    const analysis::MethodResult result = ResultOf(setting.head, setting.method.name, setting.method.values, repeats);
    Post("run", [replies, result] { replies.one(result); });
  }
  Post("run", replies.finished);
}

void FakeWorkbench::ReadMethodFile(const std::string& kind, const std::string& path, Reply<std::string> done,
                                   ErrorReply failed) {
  if (path == "missing") return Post("file", [failed] { failed("missing: it is not there; choose another file."); });
  Post("file", [this, name = kind + "[" + path + "]", done] {
    kernels::MethodSpec spec = methods_[1];
    spec.name = name;
    spec.title += ", " + name;
    methods_.push_back(spec);
    done(name);
  });
}

void FakeWorkbench::ReadConfiguration(const std::string& path, Reply<std::vector<HeadSetting>> done,
                                      ErrorReply failed) {
  if (path == "missing") return Post("file", [failed] { failed("missing: it is not there; choose another file."); });
  Post("file", [heads = configuration, done] { done(heads); });
}

void FakeWorkbench::CancelRun() {
  ++num_cancelled_runs;
  ++generations_["run"];
}

void FakeWorkbench::DescribeModel(const std::string&, Reply<ModelDescription> done, ErrorReply failed) {
  if (model) return Post("run", [model = *model, done] { done(model); });
  Post("run", [failed] { failed("model: config.json is missing."); });
}

void FakeWorkbench::Capture(const CaptureSettings&, Reply<CapturedTrace> done, ErrorReply, Reply<ProgressReport>) {
  Post("run", [done] { done({"synthetic.h5", 1, false}); });
}

void FakeWorkbench::SetClassThresholds(const std::vector<double>& values,
                                       std::vector<analysis::HeadStatistics>* heads) {
  for (analysis::HeadStatistics& head : *heads) {
    head.head_class =
        head.sink_mass >= values.front() ? analysis::HeadClass::kSinkLocal : analysis::HeadClass::kDiffuse;
  }
}

void FakeWorkbench::Quantise(analysis::HeadId, const QuantiseSettings& settings,
                             Reply<std::vector<QuantisedOutput>> done, ErrorReply, Reply<ProgressReport> progress) {
  ++num_quantisations;
  last_quantisation = settings;
  ++generations_["quantise"];
  progress({.stage = "Quantising", .fraction = 0.5});
  QuantisedOutput output{.format = "int8", .scale = "head", .num_rows = 16, .relative_error = 0.01};
  output.sparsity = 0.75;
  Post("quantise", [output, done] { done({output}); });
}

}  // namespace headscope::ui::testing
