// SPDX-License-Identifier: Apache-2.0
// A workbench for tests of the window: a small attention map from a formula, methods that keep a band (one of each
// phase), replies that the test delivers when it wants (or that deliver themselves through a poster).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/device.h"
#include "ui/workbench.h"

namespace headscope::ui::testing {

// Attention of `num_tokens` queries over their keys: logits with a sink at key 0, a slash at distance 64, a vertical at
// every 97th key and a preference for near keys; head h weighs them by 1 + h.
class SyntheticHead {
 public:
  SyntheticHead(int64_t num_tokens, int32_t head);
  double Logit(int64_t row, int64_t column) const;
  double Probability(int64_t row, int64_t column) const;  // 0 above the diagonal

 private:
  int32_t head_;
  std::vector<double> lse_;
};

class FakeWorkbench : public Workbench {
 public:
  explicit FakeWorkbench(int64_t num_tokens);

  TraceSummary Summary() const;
  const SyntheticHead& Head(int32_t head) const { return heads_[static_cast<size_t>(head)]; }
  // Which scores method "band" keeps: the newest `window` keys and the first `sinks`.
  static bool Kept(int64_t row, int64_t column, int64_t window, int64_t sinks) {
    return row - column < window || column < sinks;
  }

  // Method "newest", a decode method, is tried on this many last rows and keeps the newest `local` keys of each.
  static constexpr int64_t kSteps = 16;

  // Replies wait here until the test delivers them; with a poster they go there at once.
  void SetPoster(std::function<void(std::function<void()>)> poster) { poster_ = std::move(poster); }
  // Delivers up to `count` replies, oldest first; returns how many.
  int DeliverReplies(int count = 1 << 30);
  void HoldTiles(bool hold) { hold_tiles_ = hold; }

  struct TileRequest {
    int64_t mask_id = 0;
    analysis::TileKey key;
    int32_t priority = 0;
  };
  std::vector<TileRequest> tile_requests;  // all, in order
  int num_cancelled_tile_batches = 0;
  int num_mask_requests = 0, num_runs = 0, num_cancelled_runs = 0;
  int num_live_runs = 0, num_cancelled_live_runs = 0, num_forgotten_dense_times = 0;
  bool fail_next_live_run = false;
  int last_repeats = 0;
  int num_tuned = 0, num_thumbnails = 0, num_closed_views = 0;
  std::set<std::string> unsupported;  // methods that lack something here
  size_t num_exported_heads = 0;
  bool head_is_read = true;             // ExactScore knows nothing before
  int64_t model_window = 0;             // what ExactScore says of keys farther back; 0: none
  int64_t num_decode_rows = 0;          // of the summary
  double outside_mass = 0;              // of masks
  std::string run_note;                 // of results
  bool tell_live_errors_first = false;  // and the times by another reply
  bool fail_next_mask = false, fail_next_run = false, hold_run = false;
  bool target_out_of_reach = false;
  bool fail_next_search = false;
  double last_target = 0;
  TuneSettings last_tuning;
  std::vector<analysis::HeadId> last_tuned_heads;
  static constexpr int kFoundWindow = 77;  // what a search of method "band" ends with
  std::string last_method, last_parameters;
  MapDrawing last_drawing;
  FigureDrawing last_figure;
  int num_figures = 0;
  int num_quantisations = 0, num_cancelled_quantisations = 0;
  QuantiseSettings last_quantisation;
  bool fail_next_figure = false;
  std::vector<Device> devices = {kCpu};             // that capture
  std::optional<ModelDescription> model;            // of any folder; nothing: there is none
  std::optional<CaptureEstimate> capture_estimate;  // of any settings
  static constexpr float kPreviewLess = 3;          // log2
  enum class Previews { kNone, kFirst, kAlone, kLate };
  Previews previews = Previews::kNone;  // of tiles: before the tile, without it, or behind it

  const std::vector<kernels::MethodSpec>& methods() const override { return methods_; }
  void SetMethods(std::vector<kernels::MethodSpec> methods) { methods_ = std::move(methods); }
  std::vector<MethodFile> method_files() const override { return {{"mask-file", "a mask"}}; }
  // A copy of "band" called KIND[PATH]; "missing" is no file.
  void ReadMethodFile(const std::string& kind, const std::string& path, Reply<std::string> done,
                      ErrorReply failed) override;
  std::vector<HeadSetting> configuration;  // in any file but "missing"
  void ReadConfiguration(const std::string& path, Reply<std::vector<HeadSetting>> done, ErrorReply failed) override;
  void MeasureSettings(const std::vector<HeadSetting>& heads, int32_t repeats,
                       const HeadsReplies<analysis::MethodResult>& replies) override;
  std::vector<HeadSetting> last_settings;
  std::string WhyNotRanges(const std::vector<std::string>& ranges) const override {
    return std::ranges::is_sorted(ranges) ? "" : "lengths rise";
  }
  std::string WhyNotCheckRows(const std::string& rows) const override { return rows == "none" ? "no rows" : ""; }
  std::vector<std::string> task_names() const override { return {"passkey"}; }
  std::string task_help(const std::string&) const override { return "asks for a key"; }
  std::string default_model_dir() const override { return "model"; }
  std::vector<Device> capture_devices() const override { return devices; }
  void OpenTrace(const std::string& path, Reply<TraceSummary> done, ErrorReply failed) override;
  void RequestStatistics(Reply<analysis::HeadStatistics> one, std::function<void()> finished,
                         Reply<ProgressReport> progress) override;
  void CancelStatistics(std::function<void()> ended) override { ended(); }
  std::vector<ClassThreshold> class_thresholds() const override {
    return {{"near_mass", "sink+local: at least this is near", 0.5}, {"far_mass", "vertical-slash", 0.25}};
  }
  // Heads of at least `near_mass` sink mass are sink+local.
  void SetClassThresholds(const std::vector<double>& values, std::vector<analysis::HeadStatistics>* heads) override;
  std::string WriteClassThresholds(const std::vector<double>&, const std::string&) override { return {}; }
  std::string ReadClassThresholds(const std::string&, std::vector<double>*) override { return "no file"; }
  std::vector<std::string> quantise_formats() const override { return {"int8", "int4"}; }
  std::vector<std::string> quantise_scales() const override { return {"head", "token"}; }
  void Quantise(analysis::HeadId head, const QuantiseSettings& settings, Reply<std::vector<QuantisedOutput>> done,
                ErrorReply failed, Reply<ProgressReport> progress) override;
  void CancelQuantise() override {
    ++generations_["quantise"];
    ++num_cancelled_quantisations;
  }
  void RequestTile(MapView view, const analysis::TileKey& key, int32_t priority,
                   Reply<analysis::TilePtr> done) override;
  void RequestMaskTile(MapView view, int64_t mask_id, const analysis::TileKey& key, int32_t priority,
                       Reply<analysis::MaskTilePtr> done) override;
  void RequestMaskPairTile(MapView view, int64_t first_mask, int64_t second_mask, const analysis::TileKey& key,
                           int32_t priority, Reply<analysis::MaskPairTilePtr> done) override;
  void RequestMaskOverlap(int64_t first_mask, int64_t second_mask, Reply<analysis::MaskOverlap> done) override;
  void ExportMap(const MapDrawing& drawing, const std::string& path, Reply<std::string> done, ErrorReply,
                 Reply<ProgressReport>) override {
    last_drawing = drawing;
    Post("export", [path, done] { done(path); });
  }
  void CancelMapExport() override { ++generations_["export"]; }
  std::vector<Example> examples() const override { return {}; }
  std::vector<std::string> FilesNamedFor(const std::string& path) const override {
    asked_files = path;
    return files_named;
  }
  std::vector<std::string> FilesToOpen(const std::string& path) const override { return {path}; }
  std::vector<std::string> files_named;
  mutable std::string asked_files;
  void ExportMask(analysis::HeadId, const std::string&, const kernels::ParameterValues&, const std::string& path,
                  Reply<std::string> done, ErrorReply) override {
    Post("mask file", [path, done] { done(path); });
  }
  void ExportReport(const std::vector<analysis::HeadStatistics>&, const std::vector<analysis::MethodResult>&,
                    const std::vector<MapDrawing>&, const std::string& path, Reply<std::string> done, ErrorReply,
                    Reply<ProgressReport>) override {
    Post("report", [path, done] { done(path); });
  }
  void ExportTableDrawing(const TableDrawing&, const std::string& path, Reply<std::string> done, ErrorReply) override {
    Post("table", [path, done] { done(path); });
  }
  std::vector<FigureChoice> figures() const override {
    return {{"one", "One", "", "of one trace", 1},
            {"pair", "Pair", "a paper, figure 2", "of two traces", 2},
            {"classes", "Classes", "", "of classes", 1, /*by_class=*/true},
            {"runs", "Runs", "", "of what was measured", 1, /*by_class=*/false, /*of_runs=*/true}};
  }
  void RequestFigure(const FigureDrawing& drawing, double pixels_per_point, Reply<FigurePicturePtr> done,
                     ErrorReply failed, Reply<ProgressReport> progress) override;
  void ExportFigure(const FigureDrawing& drawing, const std::string& path, Reply<std::string> done, ErrorReply,
                    Reply<ProgressReport>) override {
    last_figure = drawing;
    Post("figure", [path, done] { done(path); });
  }
  void CancelFigure() override { ++generations_["figure"]; }
  std::unique_ptr<Workbench> Another() override { return std::make_unique<FakeWorkbench>(num_tokens_); }
  void CancelTiles(MapView view) override;
  void RequestRow(analysis::HeadId head, int64_t row, Reply<std::vector<float>> done) override;
  void CloseView(MapView) override { ++num_closed_views; }
  void RequestLiveRun(MapView view, analysis::HeadId head, const std::string& method,
                      const kernels::ParameterValues& values, int64_t mask_id, Reply<analysis::LiveRun> done,
                      ErrorReply failed) override;
  void CancelLiveRun(MapView view) override;
  void ForgetDenseTimes(MapView) override { ++num_forgotten_dense_times; }
  void RequestThumbnail(analysis::HeadId head, Reply<ThumbnailPtr> done, ErrorReply failed) override;
  void CancelThumbnails() override {}
  Exact ExactScore(analysis::HeadId head, int64_t row, int64_t column) override;
  void RequestMask(MapView view, analysis::HeadId head, const std::string& method,
                   const kernels::ParameterValues& values, Reply<LiveMask> done, ErrorReply failed) override;
  void ForgetMask(int64_t mask_id) override { forgotten_masks.push_back(mask_id); }
  std::vector<int64_t> forgotten_masks;
  std::vector<TuneTargetChoice> tune_targets() const override {
    return {{"cra", "of every row", 0.9, true, false},
            {"cra-p5", "of most rows", 0.95, true, true},
            {"kept", "of the pairs at most", 0.25, true, false, true, false, /*is_of_rows=*/false}};
  }
  void TuneHeads(const std::vector<analysis::HeadId>& heads, const TuneSettings& settings,
                 const HeadsReplies<TunedSetting>& replies) override;
  void CancelTuning() override;
  std::vector<TuningFile> tuning_files() const override { return {{"json", "Configuration", ".json"}}; }
  std::string ExportTuning(const TuneSettings&, const std::vector<TunedSetting>& heads, size_t, const std::string&,
                           const std::string&) override {
    num_exported_heads = heads.size();
    return {};
  }
  void MeetTarget(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                  double target, Reply<kernels::ParameterValues> done, Reply<Refusal> failed,
                  Reply<ProgressReport> progress) override;
  void CancelSearch() override {}
  void RequestLostKeys(analysis::HeadId head, int64_t mask_id, int64_t row, Reply<std::vector<LostKey>> done) override;
  void RunMethod(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                 int32_t repeats, Reply<analysis::MethodResult> done, Reply<Refusal> failed,
                 Reply<ProgressReport> progress) override;
  void MeasureHeads(const std::vector<analysis::HeadId>& heads, const std::string& method,
                    const kernels::ParameterValues& values, int32_t repeats,
                    const HeadsReplies<analysis::MethodResult>& replies) override;
  std::string MethodArgument(const std::string& method, const std::string& parameters) const override {
    return method + ":" + parameters;
  }
  void CancelRun() override;
  void DescribeModel(const std::string& model_dir, Reply<ModelDescription> done, ErrorReply failed) override;
  void Capture(const CaptureSettings& settings, Reply<CapturedTrace> done, ErrorReply failed,
               Reply<ProgressReport> progress) override;
  void CancelCapture() override {}
  std::vector<Recordable> recordable() const override { return {}; }
  void EstimateCapture(const CaptureSettings&, Reply<CaptureEstimate> done, ErrorReply) override {
    if (capture_estimate) Post("estimate", [estimate = *capture_estimate, done] { done(estimate); });
  }
  std::string ExportRuns(const std::vector<analysis::MethodResult>&, const std::string&) override { return {}; }
  std::string ExportStatistics(const std::vector<analysis::HeadStatistics>&, const std::string&) override { return {}; }
  std::string ReadRuns(const std::string&, std::vector<analysis::MethodResult>*) override { return "no file"; }
  std::string RunAsJson(const analysis::MethodResult&) override { return "{}"; }
  std::optional<analysis::MethodResult> RunFromJson(const std::string&) override { return std::nullopt; }

  analysis::TilePtr MakeTile(const analysis::TileKey& key) const;
  // Columns that the first mask keeps alone, the second alone, and both, of a row.
  std::array<int64_t, analysis::kNumKeptBy> KeptOfRow(int64_t first_mask, int64_t second_mask, int64_t row,
                                                      int64_t column_begin, int64_t column_end) const;
  analysis::MaskTilePtr MakeMaskTile(int64_t mask_id, const analysis::TileKey& key) const;

 private:
  struct Waiting {
    std::string tag;
    int64_t generation = 0;
    std::function<void()> act;
  };
  void Post(const std::string& tag, std::function<void()> act);
  bool IsCurrent(const Waiting& waiting) const;
  analysis::MethodResult ResultOf(analysis::HeadId head, const std::string& method,
                                  const kernels::ParameterValues& values, int32_t repeats);

  int64_t num_tokens_;
  std::vector<SyntheticHead> heads_;
  std::vector<kernels::MethodSpec> methods_;
  std::function<void(std::function<void()>)> poster_;
  std::deque<Waiting> waiting_;
  bool hold_tiles_ = false;
  // Of the two views each: what one asks for leaves the other's alone.
  std::map<std::string, int64_t> generations_;
  struct Band {
    int64_t window = 0, sinks = 0;
    int64_t first_row = 0;  // of a decode method: the rows before are no steps
  };
  std::vector<Band> masks_;  // mask_id - 1 is the index
};

}  // namespace headscope::ui::testing
