// SPDX-License-Identifier: Apache-2.0
// What the window asks of the rest of the application. ui/ knows only this interface and analysis' plain-data headers;
// app/workbench implements it over capture, data, analysis and kernels. Every call returns at once; callbacks come
// later on the UI thread, and never after Cancel of their tag.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"
#include "analysis/types/kept_steps.h"
#include "analysis/types/live_run.h"
#include "analysis/types/mask_overlap.h"
#include "analysis/types/mass_distribution.h"
#include "analysis/types/setting_quality.h"
#include "analysis/types/tile.h"
#include "analysis/types/value_scale.h"
#include "base/device.h"
#include "base/element_type.h"
#include "base/progress.h"
#include "kernels/method_spec.h"
#include "ui/memory_budget.h"

namespace headscope::ui {

// Files that a trace may be spread over.
inline constexpr int32_t kMostTraceFiles = 64;

struct TraceSummary {
  std::string path;                // of several files the first
  int64_t bytes = 0;               // of all of them
  std::vector<std::string> files;  // of several all of them, in order; else empty
  std::string model_name;          // printable, as prompt_source and the tokens are (analysis/types/printable.h)
  int64_t num_tokens = 0, num_rows = 0;
  int64_t first_token = 0;  // where it was cut from a longer trace; 0: a whole one
  int32_t num_layers = 0, num_qo_heads = 0, num_kv_heads = 0, head_dim = 0;  // of the model; its layers may differ
  bool complete = true;
  int64_t expected_tokens = 0;  // when it is complete; 0: not known
  bool rows_contiguous = true;
  bool has_sinks = false;  // some layer's heads have learned sinks
  std::string prompt_source;
  std::vector<analysis::HeadId> heads;    // recorded
  std::vector<int32_t> kv_head_of_head;   // per recorded head
  std::vector<int32_t> head_dim_of_head;  // of q and k, per recorded head
  std::vector<std::string> token_text;    // per token, printable
  std::vector<int32_t> row_positions;     // per recorded row
  std::string contents;         // a name for what is recorded: the same for a copy, another for another prompt
  int64_t num_decode_rows = 0;  // the last recorded rows whose tokens the model generated
  int32_t decode_rows = 16;     // the last recorded rows that decode methods are tried on
  // Of a task's prompt, printable: what answers it, and what the model itself generated in its place. Empty: the trace
  // holds none.
  std::string expected_answer, model_answer;
  int64_t model_answer_begin = 0, model_answer_end = 0;  // tokens of model_answer; the same: there is none
  std::optional<double> answer_score;                    // of the model's, 0 to 1; nothing while it is not all there

  // Components of a recorded head's q and k; the model's for no head, or one that is not there.
  int32_t HeadDimOf(const std::optional<analysis::HeadId>& head) const {
    const auto found = head ? std::find(heads.begin(), heads.end(), *head) : heads.end();
    const auto place = static_cast<size_t>(found - heads.begin());
    return place < head_dim_of_head.size() ? head_dim_of_head[place] : head_dim;
  }
};
// A long trace's texts take tens of milliseconds to copy.
using TraceSummaryPtr = std::shared_ptr<const TraceSummary>;

// What a capture can record beside q, k, v and lse.
struct Recordable {
  enum class Size {
    kQueriesAndKeys,  // as many numbers as q and k
    kHeadsAndTokens,  // an fp32 number a query head and token
    kTokens,          // an fp32 number a token
    kKeysAndValues,   // as many numbers as k and v
    kHiddenStates,    // hidden_size numbers a token
    kOutputs,         // as many numbers as q has rows of v's width
  };
  std::string name;  // as the command line has it
  std::string help;  // one line
  Size size = Size::kTokens;
};

struct CaptureSettings {
  std::string model_dir;
  std::string prompt_text;  // used when task, prompt_file and prompt_ids are empty
  std::string prompt_file;
  std::vector<int32_t> prompt_ids = {};  // token ids, used as given
  std::string task;
  int64_t task_length = 4096;
  std::string layers, heads;  // as typed; empty: all
  std::string kv_heads;       // in place of heads: KV heads, with all query heads of each; empty: by `heads`
  std::string rows = "all";
  int64_t decode_tokens = 0;
  std::vector<Recordable> record;
  std::optional<ElementType> dtype = {};  // nothing: the model's own
  Device device = kCpu;
  bool place_by_memory = false;  // in place of one device: over the GPUs and the CPU, by their free memory
  std::string output_path;
  bool overwrite = false;
  int32_t num_files = 1;  // 1 to kMostTraceFiles; more than one are named for output_path
};

struct ProgressReport {
  std::string stage;
  double fraction = -1;  // -1: unknown
  double rate = 0;
  ProgressUnit unit = ProgressUnit::kPercent;
  double remaining_s = -1;
  std::string readable_path = {};  // of a capture: its trace, once there are tokens that can be read
};

// A threshold by which heads get their class (docs/analysis.md, "Class of a head").
struct ClassThreshold {
  std::string name;  // as `headscope analyze` has it
  std::string help;  // one line
  double value = 0;  // 0 to 1
};

// What is quantised, as `headscope quantise` takes it; empty: every one.
struct QuantiseSettings {
  std::vector<std::string> formats, scales;
  bool as_they_are = true, turned = true;  // without and with a Hadamard rotation
};

// A head's output with Q, K and V in few bits.
struct QuantisedOutput {
  std::string format, scale;
  bool hadamard = false;
  int64_t num_rows = 0;
  double relative_error = 0, max_error = 0, cosine = 1;  // of the output, as of a method's
  double q_error = 0, k_error = 0, v_error = 0;          // |rounded - x| / |x|
  double sparsity = 0;                                   // at a CRA of 0.95, over the same rows
};

// What the mask keeps, for the live panel; `mask` stays valid for MaskTile requests while shown.
struct LiveMask {
  analysis::MaskSummary summary;
  // Of a cut trace: mean share of the rows' attention that lies on tokens before the cut, whatever a mask keeps. 0 of a
  // whole one.
  double outside_mass = 0;
  // Of a decode method, as MethodResult has it: who shares a choice of keys. A run of these parameters chooses
  // likewise.
  std::optional<kernels::ChosenPer> chosen_per;
  std::vector<float> kept_mass;  // per recorded row; of a decode method per step
  int64_t mask_id = 0;
  analysis::MassDistribution distribution;  // of kept_mass; its worst row is a recorded row
  // Of a decode method: the steps that it was tried on, which are the trace's own or else its last rows. Null for a
  // prefill method.
  analysis::KeptStepsPtr steps;
};

// A key that a mask leaves out of a query's attention.
struct LostKey {
  int64_t column = 0;
  double probability = 0;
};

// A head's map at a glance. Each pixel is the largest log2 p of its keys in a few of its queries: a column or a slash
// is seen, a single score may be missed. -inf where no sampled query has a key.
struct Thumbnail {
  static constexpr int kSide = 64;
  std::vector<float> log2_p;  // [kSide, kSide], queries downwards, keys to the right
};
using ThumbnailPtr = std::shared_ptr<const Thumbnail>;

// What the settings of heads are searched for.
struct TuneSettings {
  struct Method {
    std::string name;
    kernels::ParameterValues values;  // of which the budgets are searched
    friend bool operator==(const Method&, const Method&) = default;
  };
  enum class Unit : uint8_t { kHead, kLayer, kModel };
  // What decides between methods under a limit.
  enum class Choice : uint8_t { kUsual, kMass, kError };
  struct Target {
    std::string name;  // TuneTargetChoice::name
    double value = 0;
    // "cra-p5=0.95", as `headscope tune --target` takes it.
    std::string Text() const;
    friend bool operator==(const Target&, const Target&) = default;
  };
  std::vector<Method> methods;  // of one phase; each unit gets that which reaches the target with the fewest pairs
  Target target;
  Unit unit = Unit::kHead;  // what gets a setting of its own
  // Paths of traces that nothing is chosen by, of the same model: what was found is tried on them. A head whose setting
  // fails there has failed.
  std::vector<std::string> checks = {};
  // Paths of traces of the same model, beside the open one: a setting must reach the target over the rows of all.
  std::vector<std::string> traces = {};
  // Lengths at which a range of prompt lengths ends and the next begins, as `headscope tune` takes them ("16K"): each
  // range that one of the traces falls into has settings of its own. Empty: one range for all.
  std::vector<std::string> ranges = {};
  // Rows that nothing is chosen by, as `headscope tune --check-rows` takes them ("every:4"): what was found by the
  // others is tried on these, of the same traces or, where there are any, of `checks`. Empty: none are held out.
  std::string check_rows = {};
  Choice choose = Choice::kUsual;
  // Methods' budgets are where the search starts (TuneTargetChoice::from_budgets).
  bool from_budgets = false;
  // Of decode methods: as many of the last recorded rows are steps, of every trace (TraceSummary::decode_rows).
  int32_t decode_rows = 16;
  // Of decode methods: a head is searched in the group that shares a selection of keys, as it is measured, instead of
  // by itself (TuneTargetChoice::in_group).
  bool in_group = false;
  friend bool operator==(const TuneSettings&, const TuneSettings&) = default;
};

inline std::string TuneSettings::Target::Text() const {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::general, 6);
  return name + "=" + std::string(digits.data(), end.ptr);
}

// A head's own method, of a configuration that gives every head one.
struct HeadSetting {
  analysis::HeadId head;
  TuneSettings::Method method;
  friend bool operator==(const HeadSetting&, const HeadSetting&) = default;
};

// A kind of file that methods are made of (docs/methods.md, "Methods read from a file").
struct MethodFile {
  std::string name;  // as `headscope` takes it before :path=FILE
  std::string help;  // one line
};

// What TuneSettings::target may aim at.
struct TuneTargetChoice {
  std::string name;           // as typed, before the '='
  std::string title;          // what a person reads
  double value = 0;           // a usual one
  bool is_share = true;       // its value is below 1
  bool is_windows = false;    // what the window's Meet target aims at
  bool is_limit = false;      // of the pairs or the work: methods differ in their error there, TuneSettings::choose
  bool from_budgets = false;  // the search starts from the methods' own budgets
  bool is_of_rows = true;     // of rows' mass or error, and so another one on held-out rows; else of all rows together
  bool in_group = true;       // decode methods can be searched in a head's group (TuneSettings::in_group)
};

// A kind of file that a tuning can be written to.
struct TuningFile {
  std::string name;       // as ExportTuning takes it
  std::string title;      // what a person reads
  std::string extension;  // ".json"
};

// The cheapest setting that reaches a target on one head, as `headscope tune` finds it.
struct TunedSetting : analysis::SettingQuality {
  struct Point {
    kernels::ParameterValues values;
    double mass_mean = 0;
  };

  // Of prompt lengths, in tokens: a prompt may have `from_tokens` and more, and fewer than `below_tokens`.
  struct Lengths {
    static constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();
    int64_t from_tokens = 0, below_tokens = kNoEnd;
    friend bool operator==(const Lengths&, const Lengths&) = default;
  };

  analysis::HeadId head;
  Lengths lengths = {};        // all, where no ranges were asked for
  bool is_open_traces = true;  // the open trace's prompt is as long as that
  size_t method = 0;           // among TuneSettings::methods
  kernels::ParameterValues values;
  NamedDevice device;
  double outside_mass = 0;  // as LiveMask::outside_mass
  // The same setting on TuneSettings::checks together; nothing without such.
  std::optional<analysis::SettingQuality> checked = {};
  // Settings along the method's trade-off, rising, where a file can be made of them: of one method that evicts down to
  // a budget, with a setting for each head.
  std::vector<Point> trade_off;
  // Of methods that do not run on the head, where another one does: "TidalDecode: layer 3 reuses ..".
  std::vector<std::string> passed_over;
  std::string note;  // what else to know of the method's settings, a clause; mostly empty
};

// The window's maps. What one of them asks for is no longer wanted when it asks anew; the others' is.
enum class MapView : uint8_t { kFirst, kSecond, kThird, kFourth };
inline constexpr std::array kMapViews = {MapView::kFirst, MapView::kSecond, MapView::kThird, MapView::kFourth};

// A head's map as a picture in a file, as `headscope render` draws it.
struct MapDrawing {
  analysis::HeadId head;
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;  // 0, 0: everything
  int32_t width = 800, height = 800;                                     // of the map alone
  bool mean = false, logarithmic = true, dark = false;
  bool profiles = false;                      // the curves beside the map
  bool lost = false;                          // the colours show what the method leaves out
  std::string color_map;                      // empty: the command's own
  std::optional<analysis::ValueRange> range;  // of the colours; nothing: what the picture holds
  std::string method, parameters;             // a prefill method whose mask lies over the map; empty: none
  // Beside a method, another one on the same head: which of the two keeps a score.
  std::string other_method, other_parameters;
  // Another head, of another trace or (empty) of this one: its probability less this one's. Methods say nothing then.
  std::optional<analysis::HeadId> other_head;
  std::string other_trace;
};

// A figure of the analysis, as `headscope render --list-figures` has it.
struct FigureChoice {
  std::string name;  // as typed
  std::string title;
  std::string source;  // the paper's figure or table; empty: headscope's own
  std::string help;    // one line
  int32_t least_traces = 1;
  bool by_class = false;  // it tells heads apart by their class
  bool of_runs = false;   // it shows what was measured on the open trace
};

// A figure of the open trace, as `headscope render --figure` makes it.
struct FigureDrawing {
  std::string name;
  std::vector<analysis::HeadId> heads;  // empty: all that are recorded; of the other trace those that it has, too
  std::string other_trace;              // in the figure beside this one; empty: none
  int64_t max_rows = 256;               // of a head, evenly spaced; 0: all
  int32_t width = 1000, height = 480;   // points; height 0: of a file, as much as its panels need
  bool dark = false;
  bool captions = true;  // title, source and caption are drawn, too
  // Of a figure by class: in the order of Workbench::class_thresholds; empty: their defaults.
  std::vector<double> class_thresholds = {};
  // Of one of runs; another vector is another figure. Null: none.
  std::shared_ptr<const std::vector<analysis::MethodResult>> runs = {};
  friend bool operator==(const FigureDrawing&, const FigureDrawing&) = default;
};

struct FigurePicture {
  std::string title, source, caption;
  // [height, width], 0xffRRGGBB.
  int32_t width = 0, height = 0;
  std::vector<uint32_t> rgb;
};
using FigurePicturePtr = std::shared_ptr<const FigurePicture>;

struct Exact {  // one score under the cursor; NaN while the head is still being read
  double probability = 0;
  double score = 0;  // scaled logit
  bool causal = true;
  bool in_window = true;  // false: the model's own window has left the key behind
};

// What a model folder would record, read from its configuration and the headers of its weights only.
struct ModelDescription {
  std::string model_dir, model_type;
  std::string dtype;  // of most of the weights, as safetensors writes it: "BF16", "F16", "F32"
  ElementType recorded_type = ElementType::kFloat32;  // of a trace whose type nobody chose
  int64_t num_parameters = 0, max_positions = 0;
  int32_t num_layers = 0, num_qo_heads = 0, num_kv_heads = 0, head_dim = 0, hidden_size = 0;
  std::string why_not_shown;  // one sentence: why the window cannot open what is captured of it; empty: it can
};

struct CaptureEstimate {
  int64_t prompt_tokens = 0;   // as the model's own tokenizer counts them
  double seconds = 0;          // that the model takes at least; 0: not known
  int64_t trace_bytes = -1;    // of tensors and tokens, layer by layer; -1: the prompt is longer than the model takes
  int64_t memory_bytes = 0;    // about what is held where the model runs; 0: not known
  bool on_gpu = false;         // the whole model; else memory_bytes are this machine's, those of its GPUs among them
  std::string placement = {};  // of place_by_memory: which device holds which layers, and what is passed over
};

// A trace that a capture has written.
struct CapturedTrace {
  std::string path;        // of a cancelled capture it may lie beside the chosen name, whose file is then as it was
  int64_t num_tokens = 0;  // recorded
  bool cancelled = false;  // valid, and shorter than asked for
  std::string why_no_texts = {};  // of token ids whose model has no tokenizer that can be read: a sentence
  std::string placement = {};     // as CaptureEstimate's
  int64_t bytes = 0;              // of its files
};

// A trace to begin with. What takes too much room to come along is made on this machine when it is first asked for.
struct Example {
  std::string title;                       // "60 tokens: a sentence, twice"
  std::string help;                        // one line: what there is to be seen
  std::string path;                        // where it lies, or will
  std::string cost;                        // of making it: "330 MB, about two minutes"; empty: it is quick
  std::optional<CaptureSettings> made_by;  // nothing: it came with the program
  std::string metric;                      // the head with the most of it is shown first; empty: one worth a look
};

// A table as a picture, as text in rows and columns.
struct TableDrawing {
  struct Column {
    std::string title;
    bool right = false;  // its texts end where its title ends
  };
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
  int32_t png_width = 0;                       // pixels across of a .png; 0: two a point
};

template <typename T>
using Reply = std::function<void(T)>;
using ErrorReply = std::function<void(std::string)>;  // one sentence

// Why a method was not measured, or no parameters were found.
struct Refusal {
  std::string sentence;
  // The head lacks what the method needs, or the target is out of its reach: beside others it is left out, and no
  // failure.
  bool unsupported = false;
};

struct FailedHead {
  analysis::HeadId head;
  std::string sentence;
};

// How work over many heads answers. `one` and `failed` together come once for every head, in any order, then
// `finished`.
template <typename T>
struct HeadsReplies {
  Reply<T> one;
  Reply<FailedHead> failed;  // the others go on
  std::function<void()> finished;
  Reply<ProgressReport> progress;  // of all heads together
};

// What of the screen is waited for. kFrames: those that were asked for; of a window that never rests, no longer than a
// moment. kTiles: as well, and however long it takes, that every map on show has the tiles that it asked for.
enum class Drawn : uint8_t { kFrames, kTiles };

class Workbench {
 public:
  virtual ~Workbench() = default;

  // Takes what goes wrong in work that has no error reply of its own (a head that can no longer be read, a cache folder
  // that is full).
  void SetBackgroundErrorHandler(ErrorReply handler) { background_error_ = std::move(handler); }

  // How work in the background waits for the screen, so that no frame is drawn beside what it measures: the window
  // calls `then`, on the UI thread, when everything that it was told before is drawn. Without one, nothing is waited
  // for.
  using WhenDrawn = std::function<void(Drawn what, std::function<void()> then)>;
  void SetWhenDrawn(WhenDrawn when_drawn) { when_drawn_ = std::move(when_drawn); }

  // What all caches of the window share, on both sides of this interface.
  MemoryBudget& memory() { return *memory_; }

  virtual const std::vector<kernels::MethodSpec>& methods()
      const = 0;  // the registry, dense first, then files' methods
  virtual std::vector<MethodFile> method_files() const = 0;
  // Reads a file of that kind, in the background, and makes methods of it: methods() has them when `done` takes the
  // prefill method's name. A file that was read before is not read again.
  virtual void ReadMethodFile(const std::string& kind, const std::string& path, Reply<std::string> done,
                              ErrorReply failed) = 0;
  // What a configuration of `headscope tune`, or MInference's best patterns, gives the open trace's heads; of ranges of
  // lengths that of the trace's prompt. Heads without a setting, or that are not recorded, are not among them.
  virtual void ReadConfiguration(const std::string& path, Reply<std::vector<HeadSetting>> done, ErrorReply failed) = 0;
  virtual std::vector<std::string> task_names() const = 0;
  virtual std::string task_help(const std::string& name) const = 0;  // one line: what the prompt holds and asks for
  virtual std::string default_model_dir() const = 0;
  virtual std::vector<Example> examples() const = 0;
  virtual std::vector<Device> capture_devices() const = 0;  // of this machine: the CPU, then its GPUs

  // The files in the folder whose names make them files of a trace called `path`, and those that opening `path` would
  // read, the first one first. At once: only names are looked at.
  virtual std::vector<std::string> FilesNamedFor(const std::string& path) const = 0;
  virtual std::vector<std::string> FilesToOpen(const std::string& path) const = 0;
  virtual void OpenTrace(const std::string& path, Reply<TraceSummary> done, ErrorReply failed) = 0;
  // Statistics of all heads, each as soon as it is known (of many rows quick ones first, then exact); `finished` at the
  // end. Kept in a file beside the trace's cache key, so that a second start shows them at once.
  virtual void RequestStatistics(Reply<analysis::HeadStatistics> one, std::function<void()> finished,
                                 Reply<ProgressReport> progress) = 0;

  // What is known so far stays known. `ended`: the last of the work is over, a moment later.
  virtual void CancelStatistics(std::function<void()> ended) = 0;

  // With their defaults.
  virtual std::vector<ClassThreshold> class_thresholds() const = 0;
  // Values in that order, for statistics that come from now on. Of `heads`, which came before, class, reason,
  // confidence and alternative are set anew, at once.
  virtual void SetClassThresholds(const std::vector<double>& values, std::vector<analysis::HeadStatistics>* heads) = 0;
  // To and from a file of `headscope analyze --classes`, at once. Return an empty string or the error.
  virtual std::string WriteClassThresholds(const std::vector<double>& values, const std::string& path) = 0;
  virtual std::string ReadClassThresholds(const std::string& path, std::vector<double>* values) = 0;

  virtual std::vector<std::string> quantise_formats() const = 0;
  virtual std::vector<std::string> quantise_scales() const = 0;
  // In the background, heads of its layer included where they share a scale. A new request cancels the one before.
  virtual void Quantise(analysis::HeadId head, const QuantiseSettings& settings,
                        Reply<std::vector<QuantisedOutput>> done, ErrorReply failed,
                        Reply<ProgressReport> progress) = 0;
  virtual void CancelQuantise() = 0;

  // A tile that takes long may come twice: first as a preview, then as it is. One that cannot be made, because its head
  // cannot be read or its mask is not held any more, comes as null: who waits for it waits no longer.
  virtual void RequestTile(MapView view, const analysis::TileKey& key, int32_t priority,
                           Reply<analysis::TilePtr> done) = 0;
  virtual void RequestMaskTile(MapView view, int64_t mask_id, const analysis::TileKey& key, int32_t priority,
                               Reply<analysis::MaskTilePtr> done) = 0;
  // Of two masks of one head that are held: what either keeps alone, and what both keep.
  virtual void RequestMaskPairTile(MapView view, int64_t first_mask, int64_t second_mask, const analysis::TileKey& key,
                                   int32_t priority, Reply<analysis::MaskPairTilePtr> done) = 0;
  // The same over the whole head. A new request cancels the one before; no reply when a mask is not held any more.
  virtual void RequestMaskOverlap(int64_t first_mask, int64_t second_mask, Reply<analysis::MaskOverlap> done) = 0;
  virtual void CancelTiles(MapView view) = 0;  // all of its queued tile requests: it has changed
  virtual void CloseView(MapView view) = 0;    // it is gone, and what it had on show may leave
  // TraceSummary::contents of the open trace as it was while that held `tokens` tokens, if it was being written then.
  // Empty: no trace is open, it holds fewer, or that is not known.
  virtual std::string ContentsOfFirst(int64_t /*tokens*/) const { return {}; }
  virtual Exact ExactScore(analysis::HeadId head, int64_t row, int64_t column) = 0;  // immediate; one dot product

  // The probability of every key in one recorded row, [num_tokens]; 0 of keys that the model's row does not attend to.
  // A new request cancels the one before; no reply when the head cannot be read.
  virtual void RequestRow(analysis::HeadId head, int64_t row, Reply<std::vector<float>> done) = 0;
  // Made one after the other, after all else that the window asks for.
  virtual void RequestThumbnail(analysis::HeadId head, Reply<ThumbnailPtr> done, ErrorReply failed) = 0;
  virtual void CancelThumbnails() = 0;

  // A new request of the same view cancels the one before.
  virtual void RequestMask(MapView view, analysis::HeadId head, const std::string& method,
                           const kernels::ParameterValues& values, Reply<LiveMask> done, ErrorReply failed) = 0;
  // Runs the executor on what a mask keeps, which was made of these parameters and is held. May come twice: with the
  // errors, and no times (LiveRun::is_timed), beside whatever else is at work; then with its times, which are taken of
  // one map at a time, when the window has drawn what it has to. A new request of the same view cancels the one before.
  virtual void RequestLiveRun(MapView view, analysis::HeadId head, const std::string& method,
                              const kernels::ParameterValues& values, int64_t mask_id, Reply<analysis::LiveRun> done,
                              ErrorReply failed) = 0;
  virtual void CancelLiveRun(MapView view) = 0;
  // What its live runs have been compared with met other work, which has ended: dense attention is timed anew beside
  // the next one. Never waits.
  virtual void ForgetDenseTimes(MapView view) = 0;
  // No tiles of the mask will be asked for any more.
  virtual void ForgetMask(int64_t mask_id) = 0;
  // Of one recorded row that the mask is about: the keys that it leaves out, the most probable first, at most
  // kMostLostKeys. No reply when the mask is not held any more, or the head cannot be read.
  static constexpr size_t kMostLostKeys = 16;
  virtual void RequestLostKeys(analysis::HeadId head, int64_t mask_id, int64_t row,
                               Reply<std::vector<LostKey>> done) = 0;
  // Searches the method's budgets (kernels::ParameterRole) for the cheapest values that leave fewer than 5 % of the
  // rows below `target`, a share of mass; the other parameters stay at `values`. Tagged "search". `failed` also says
  // that the target is out of reach.
  virtual void MeetTarget(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                          double target, Reply<kernels::ParameterValues> done, Reply<Refusal> failed,
                          Reply<ProgressReport> progress) = 0;
  virtual void CancelSearch() = 0;
  virtual std::vector<TuneTargetChoice> tune_targets() const = 0;
  // A sentence for what TuneSettings::ranges does not take; empty: it does.
  virtual std::string WhyNotRanges(const std::vector<std::string>& ranges) const = 0;
  // The same of TuneSettings::check_rows.
  virtual std::string WhyNotCheckRows(const std::string& rows) const = 0;
  // A search on many heads, several at a time. With ranges of lengths `one` comes for each range that a trace falls
  // into, the open trace's last. A method that refuses a head is passed over where another one takes it
  // (TunedSetting::passed_over). A target that is out of reach is no failure.
  // A new request cancels the one before, and MeetTarget's is another.
  virtual void TuneHeads(const std::vector<analysis::HeadId>& heads, const TuneSettings& settings,
                         const HeadsReplies<TunedSetting>& replies) = 0;
  virtual void CancelTuning() = 0;
  // Every kind of file that ExportTuning writes; of two with one extension the first is the usual one.
  virtual std::vector<TuningFile> tuning_files() const = 0;
  // Writes what TuneHeads found as `headscope tune -o` does, to the kind of file of that name or, where it is empty, of
  // the path's extension. Returns an empty string or the error.
  virtual std::string ExportTuning(const TuneSettings& settings, const std::vector<TunedSetting>& heads,
                                   size_t num_heads_chosen, const std::string& path, const std::string& file) = 0;
  // Whether runs measure their head alone, rather than all recorded heads of its layer in one launch, as a model
  // attends; a decode method's mask is what such a run keeps. Of what is asked for from now on.
  void SetMeasuresAlone(bool alone) { measures_alone_ = alone; }
  bool measures_alone() const { return measures_alone_; }
  // Measures a method of either phase beside dense attention of that phase. A name that both phases have means prefill,
  // here and for masks. Short runs are repeated more often than `repeats`. `progress` tells the repeats, now and then
  // only, and the run waits until that is drawn: a frame takes as long as a short repeat.
  virtual void RunMethod(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                         int32_t repeats, Reply<analysis::MethodResult> done, Reply<Refusal> failed,
                         Reply<ProgressReport> progress) = 0;
  // The same of many heads: those that are measured in one launch share its times. Counts as a run: either cancels the
  // other.
  virtual void MeasureHeads(const std::vector<analysis::HeadId>& heads, const std::string& method,
                            const kernels::ParameterValues& values, int32_t repeats,
                            const HeadsReplies<analysis::MethodResult>& replies) = 0;
  // The same with each head's own method, each head by itself: the heads of a layer may differ, and no single launch
  // runs them.
  virtual void MeasureSettings(const std::vector<HeadSetting>& heads, int32_t repeats,
                               const HeadsReplies<analysis::MethodResult>& replies) = 0;
  virtual void CancelRun() = 0;
  // A method with parameters as the command line's --method takes it.
  virtual std::string MethodArgument(const std::string& method, const std::string& parameters) const = 0;

  // Draws a map into a file, .svg, .pdf or .png by its extension, in the background; `done` takes the path. A new
  // request cancels the one before.
  virtual void ExportMap(const MapDrawing& drawing, const std::string& path, Reply<std::string> done, ErrorReply failed,
                         Reply<ProgressReport> progress) = 0;
  virtual void CancelMapExport() = 0;
  // What a prefill method keeps on a head, to .json or to an index file (.h5) that runs as a method on another trace,
  // as `headscope compare --save-index`. In the background.
  virtual void ExportMask(analysis::HeadId head, const std::string& method, const kernels::ParameterValues& values,
                          const std::string& path, Reply<std::string> done, ErrorReply failed) = 0;
  // A page (.html) of the trace, with these maps of its heads as pictures beside it. In the background, as ExportMap,
  // whose request it cancels.
  virtual void ExportReport(const std::vector<analysis::HeadStatistics>& statistics,
                            const std::vector<analysis::MethodResult>& runs, const std::vector<MapDrawing>& pictures,
                            const std::string& path, Reply<std::string> done, ErrorReply failed,
                            Reply<ProgressReport> progress) = 0;
  // To .svg, .pdf or .png by its extension. In the background.
  virtual void ExportTableDrawing(const TableDrawing& table, const std::string& path, Reply<std::string> done,
                                  ErrorReply failed) = 0;

  // In the list's order.
  virtual std::vector<FigureChoice> figures() const = 0;
  // Makes a figure and paints it, in the background. What was made last is painted again at another size without being
  // made again. Where its panels have no room, it is painted on a larger page: the same shape, more pixels. A new
  // request, or ExportFigure, cancels the one before.
  virtual void RequestFigure(const FigureDrawing& drawing, double pixels_per_point, Reply<FigurePicturePtr> done,
                             ErrorReply failed, Reply<ProgressReport> progress) = 0;
  // The same into a file, .svg, .pdf, .png, .json or .csv by its extension; `done` takes the path. An existing file is
  // replaced.
  virtual void ExportFigure(const FigureDrawing& drawing, const std::string& path, Reply<std::string> done,
                            ErrorReply failed, Reply<ProgressReport> progress) = 0;
  virtual void CancelFigure() = 0;

  // Another one, for another trace beside this one's: it shares the memory budget, and waits where this one measures.
  // This one outlives it.
  virtual std::unique_ptr<Workbench> Another() = 0;

  virtual void DescribeModel(const std::string& model_dir, Reply<ModelDescription> done, ErrorReply failed) = 0;
  virtual std::vector<Recordable> recordable() const = 0;
  // Reads and tokenizes the prompt; measures this machine, the first time. A new request cancels the one before.
  virtual void EstimateCapture(const CaptureSettings& settings, Reply<CaptureEstimate> done, ErrorReply failed) = 0;
  // After CancelCapture one of the two still comes: done when tokens were recorded (the trace is valid and shorter),
  // else failed.
  virtual void Capture(const CaptureSettings& settings, Reply<CapturedTrace> done, ErrorReply failed,
                       Reply<ProgressReport> progress) = 0;
  virtual void CancelCapture() = 0;

  // Write the runs table and the head table, at once. By extension: .csv, .json or .h5. Return an empty string or the
  // error.
  virtual std::string ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path) = 0;
  virtual std::string ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics,
                                       const std::string& path) = 0;
  // Reads what ExportRuns or `headscope compare` wrote to .json or .csv, at once. Returns an empty string or the error.
  virtual std::string ReadRuns(const std::string& path, std::vector<analysis::MethodResult>* runs) = 0;
  // A run as a JSON object, and back; nothing for a text that is none. For what the window keeps of a trace.
  virtual std::string RunAsJson(const analysis::MethodResult& run) = 0;
  virtual std::optional<analysis::MethodResult> RunFromJson(const std::string& json) = 0;

 protected:
  Workbench() = default;
  explicit Workbench(std::shared_ptr<MemoryBudget> shared) : memory_(std::move(shared)) {}

  void ReportBackgroundError(const std::string& sentence) const {
    if (background_error_) background_error_(sentence);
  }
  // On the UI thread.
  void CallWhenDrawn(Drawn what, std::function<void()> then) const {
    if (when_drawn_) {
      when_drawn_(what, std::move(then));
    } else {
      then();
    }
  }

  // Outlives the workbench where work in the background still holds it.
  const std::shared_ptr<MemoryBudget>& shared_memory() const { return memory_; }

 private:
  const std::shared_ptr<MemoryBudget> memory_ = std::make_shared<MemoryBudget>();
  bool measures_alone_ = false;
  ErrorReply background_error_;
  WhenDrawn when_drawn_;
};

}  // namespace headscope::ui
