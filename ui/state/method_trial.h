// SPDX-License-Identifier: Apache-2.0
// The method under trial on the head on show: which one, with what parameters, what it keeps, and what the last
// measured run said. Every change asks the workbench for a new mask. While one of the same head is on its way, the
// newest parameters wait for it: a slider that moves faster than masks are made still shows masks, and ends on its last
// value. Behind each mask the executor is run once on what it keeps, unless nobody wants that; a change of the
// parameters cancels such a run.
#pragma once

#include <QObject>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

// Nearest legal value: inside the range, whole for integers and flags, on the grid of steps for linear reals.
double SnappedValue(const kernels::ParameterSpec& spec, double value);
// One notch up (+1) or down (-1): by the step, or to the double or the half of logarithmic parameters, whose steps of
// tokens or blocks would be lost on a scale of powers. At least 1 for integers.
double SteppedValue(const kernels::ParameterSpec& spec, double value, int direction);

// The end of a parameter's slider: as much of its unit (tokens, columns, slashes, rows, blocks, components of `head`)
// as the trace has, or the parameter's own maximum where that is less or the unit is another. More would change
// nothing.
double SliderEnd(const kernels::ParameterSpec& spec, const TraceSummary& trace,
                 const std::optional<analysis::HeadId>& head = {});

// What the kept mass of the rows should reach; 1 would be dense attention.
inline constexpr double kDefaultMassTarget = 0.95;
inline constexpr double kGreatestMassTarget = 0.999;

class MethodTrial : public QObject {
  Q_OBJECT

 public:
  // `view`: the map that shows its masks.
  explicit MethodTrial(QObject* parent = nullptr, MapView view = MapView::kFirst);
  ~MethodTrial() override;

  MapView view() const { return view_; }

  void SetWorkbench(Workbench* workbench);
  // The workbench has more methods than before: the present one and its parameters stay.
  void ReloadMethods();
  // Another head (or none): its mask is requested, the last result is forgotten.
  void SetHead(std::optional<analysis::HeadId> head);
  const std::optional<analysis::HeadId>& head() const { return head_; }
  // Whether runs measure the head alone: a decode method's mask is then its own choice, and else its layer's.
  void SetMeasuresAlone(bool alone);
  // Masks are requested only while somebody shows them; at first nobody is asked and they are.
  void SetMaskWanted(const void* who, bool wanted);

  // The registry: prefill methods, then decode methods. Dense decode is not among them: it keeps everything, is the
  // baseline of every decode run, and has the name of dense prefill.
  const std::vector<kernels::MethodSpec>& methods() const { return methods_; }
  // Null while there is no workbench.
  const kernels::MethodSpec* method() const;
  bool is_decode() const;  // false without a method
  const kernels::ParameterValues& values() const { return values_; }
  // The parameters of any method: the present ones, those that it had last time, or its defaults.
  kernels::ParameterValues ValuesOf(const kernels::MethodSpec& spec) const;
  // Picks a method with the parameters it had last time, or its defaults.
  bool SelectMethod(const std::string& name);
  // False, and nothing changes, when a name or value is illegal.
  bool SelectMethod(const std::string& name, const kernels::ParameterValues& values);
  // The method `step` places further in the list, round its ends.
  void StepMethod(int step);
  bool SetValue(const std::string& name, double value);
  void ResetToDefaults();

  double target() const { return target_; }
  // The target alone; clamped to 0..kGreatestMassTarget.
  void SetTarget(double target);
  // The target, and the method's parameters that are themselves shares of mass.
  void AimAt(double target);

  // Kept masses [first, second) whose queries the map marks; nothing: none.
  using Brush = std::optional<std::pair<double, double>>;
  void SetBrush(const Brush& brush);
  const Brush& brush() const { return brush_; }

  const std::optional<LiveMask>& mask() const { return mask_; }
  // A mask to look at beside the panel's, as long as somebody points at its run: the map shows it, nothing else
  // changes. It is asked for when the panel's own is there, and one of another head, or whose parameters are illegal,
  // is not shown at all. Nothing: the panel's own again.
  struct GhostMethod {
    analysis::HeadId head;
    std::string method, parameters;
    friend bool operator==(const GhostMethod&, const GhostMethod&) = default;
  };
  void SetGhost(const std::optional<GhostMethod>& ghost);
  const std::optional<LiveMask>& ghost() const { return ghost_; }
  const std::optional<GhostMethod>& ghost_method() const { return ghost_method_; }
  // What the map shows of: the ghost's, else the panel's own.
  const std::optional<LiveMask>& shown_mask() const { return ghost_ ? ghost_ : mask_; }
  bool mask_pending() const { return mask_pending_; }
  const std::string& mask_error() const { return mask_error_; }
  QString WhyNoMask() const;  // a sentence in the place of what a mask would show; empty: there is one
  // Whether every mask is followed by a run of the executor.
  void SetLiveWanted(bool wanted);
  // The last of these runs. While the next is on its way (live_pending), or waits for its mask, it is of other
  // parameters, unless is_live_present: then the errors are there, and its times to come.
  const std::optional<analysis::LiveRun>& live() const { return live_; }
  bool live_pending() const { return live_pending_; }
  bool is_live_present() const { return live_ && is_live_present_ && !mask_pending_; }
  const std::string& live_error() const { return live_error_; }
  // Something is measured, and has the machine to itself: a run under way is given up, and the last one that was wanted
  // meanwhile follows when that is over.
  void SetMeasuring(bool measuring);
  // What was run beside other work, which has ended, or still runs: its times are of a busy machine, and so are those
  // of dense attention. Nothing is run where nothing was.
  void RunLiveAgain();
  bool live_waits() const { return live_waits_; }

  // Looks for the query that keeps the least of its mass by the mask on show, and for the keys that it loses most of:
  // WorstQueryFound follows. Does nothing without a mask.
  void FindWorstQuery();

  // False when there is no head, no method or a run already.
  bool Run(int repeats);
  void CancelRun();
  bool running() const { return running_; }
  // A run of this head that was measured before; one of another head changes nothing.
  void ShowResult(const analysis::MethodResult& result);
  const ProgressReport& progress() const { return progress_; }
  const std::optional<analysis::MethodResult>& result() const { return result_; }
  int64_t num_results() const { return num_results_; }  // counts them
  const std::string& run_error() const { return run_error_; }

 Q_SIGNALS:
  void Changed();        // anything to draw anew
  void MethodChanged();  // method, a parameter or the target
  void MaskReady(const headscope::ui::LiveMask& mask);
  // `row`: recorded. `lost`: none when the mask keeps all of its keys.
  void WorstQueryFound(qint64 row, double kept_mass, const std::vector<headscope::ui::LostKey>& lost);
  void RunStarted();
  void RunProgressed(const headscope::ui::ProgressReport& report);
  void RunFinished(const headscope::analysis::MethodResult& result);
  void RunFailed(const QString& sentence);

 private:
  void FillMethods();
  void RequestMask();  // now: the request before it is stale
  void SendMaskRequest();
  void FinishMaskRequest();
  void RequestGhost();
  void DropGhost();
  void RequestLive();
  void CancelLive();

  const MapView view_;
  Workbench* workbench_ = nullptr;
  std::vector<kernels::MethodSpec> methods_;
  size_t method_index_ = 0;
  kernels::ParameterValues values_;
  std::map<std::string, kernels::ParameterValues> remembered_;
  double target_ = kDefaultMassTarget;
  Brush brush_;
  std::optional<analysis::HeadId> head_;
  std::set<const void*> mask_watchers_;
  bool mask_wanted_ = true, measures_alone_ = false;
  std::optional<LiveMask> mask_;
  std::optional<GhostMethod> ghost_method_;
  std::optional<LiveMask> ghost_;
  int64_t ghost_request_ = 0;  // as mask_request_
  bool mask_pending_ = false;
  bool mask_outdated_ = false;  // the parameters changed while the mask was on its way
  std::string mask_error_;
  bool live_wanted_ = true, live_pending_ = false, live_waits_ = false, measuring_ = false;
  bool is_live_present_ = false;  // live_ is of the mask that is there
  std::optional<analysis::LiveRun> live_;
  std::string live_error_;
  int64_t live_request_ = 0;  // as mask_request_
  bool running_ = false;
  ProgressReport progress_;
  std::optional<analysis::MethodResult> result_;
  int64_t num_results_ = 0;
  std::string run_error_;
  int64_t mask_request_ = 0;  // number of the newest; a reply with another one is dropped
  int64_t run_request_ = 0;
  std::shared_ptr<MethodTrial*> self_;  // replies hold it weakly
};

}  // namespace headscope::ui
