// SPDX-License-Identifier: Apache-2.0
#include "method_trial.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "shown_text.h"

namespace headscope::ui {

double SnappedValue(const kernels::ParameterSpec& spec, double value) {
  if (std::isnan(value)) return spec.default_value;
  if (spec.type != kernels::ParameterType::kReal) {
    value = std::round(value);
  } else if (!spec.logarithmic && spec.step > 0) {
    value = spec.minimum + std::round((value - spec.minimum) / spec.step) * spec.step;
  }
  return std::clamp(value, spec.minimum, spec.maximum);
}

double SteppedValue(const kernels::ParameterSpec& spec, double value, int direction) {
  if (direction > 0 && value >= spec.maximum) return value;  // it may have been set where the range reached farther
  double next = value + direction * spec.step;
  if (spec.logarithmic && value > 0) next = direction > 0 ? value * 2 : value / 2;
  next = SnappedValue(spec, next);
  if (next == value && spec.type == kernels::ParameterType::kInteger) next = SnappedValue(spec, value + direction);
  return next;
}

double SliderEnd(const kernels::ParameterSpec& spec, const TraceSummary& trace,
                 const std::optional<analysis::HeadId>& head) {
  return kernels::LargestUseful(spec, trace.num_tokens, trace.HeadDimOf(head));
}

MethodTrial::MethodTrial(QObject* parent, MapView view)
    : QObject(parent), view_(view), self_(std::make_shared<MethodTrial*>(this)) {}

MethodTrial::~MethodTrial() {
  if (running_) workbench_->CancelRun();
}

void MethodTrial::SetWorkbench(Workbench* workbench) {
  CancelRun();
  CancelLive();
  workbench_ = workbench;
  method_index_ = 0;
  values_ = {};
  if (workbench_ != nullptr) workbench_->SetMeasuresAlone(measures_alone_);
  FillMethods();
  // Dense comes first in the registry and keeps everything; the first one that leaves something out is more to look at.
  if (methods_.size() > 1) method_index_ = 1;
  if (const kernels::MethodSpec* spec = method()) values_ = kernels::ParameterValues(*spec);
  RequestMask();
}

void MethodTrial::ReloadMethods() {
  const std::string present = method() == nullptr ? "" : method()->name;
  FillMethods();
  const auto found = std::find_if(methods_.begin(), methods_.end(),
                                  [&](const kernels::MethodSpec& spec) { return spec.name == present; });
  method_index_ = static_cast<size_t>(found - methods_.begin());
  Q_EMIT Changed();
}

void MethodTrial::FillMethods() {
  methods_.clear();
  if (workbench_ == nullptr) return;
  for (const kernels::Phase phase : {kernels::Phase::kPrefill, kernels::Phase::kDecode}) {
    std::map<std::string, size_t> ranks;  // of families, in the order in which the registry comes to them
    std::vector<kernels::MethodSpec> of_phase;
    for (const kernels::MethodSpec& spec : workbench_->methods()) {
      // One baseline stands for both phases: it keeps everything in either.
      const bool known = spec.baseline && std::any_of(methods_.begin(), methods_.end(),
                                                      [](const kernels::MethodSpec& other) { return other.baseline; });
      if (spec.phase != phase || known) continue;
      of_phase.push_back(spec);
      ranks.try_emplace(spec.family, ranks.size());
    }
    std::stable_sort(of_phase.begin(), of_phase.end(),
                     [&](const auto& one, const auto& other) { return ranks.at(one.family) < ranks.at(other.family); });
    methods_.insert(methods_.end(), of_phase.begin(), of_phase.end());
  }
}

void MethodTrial::SetHead(std::optional<analysis::HeadId> head) {
  CancelRun();
  head_ = head;
  result_.reset();
  run_error_.clear();
  mask_.reset();
  live_.reset();
  ghost_method_.reset();
  RequestMask();
}

void MethodTrial::SetGhost(const std::optional<GhostMethod>& ghost) {
  if (ghost == ghost_method_) return;
  ghost_method_ = ghost;
  DropGhost();
  if (!mask_pending_) RequestGhost();
  Q_EMIT Changed();
}

// Many may be looked at in a row: those that are gone would push the panel's own mask out of what is held.
void MethodTrial::DropGhost() {
  ++ghost_request_;
  if (ghost_ && workbench_ != nullptr) workbench_->ForgetMask(ghost_->mask_id);
  ghost_.reset();
}

// The map's view has one request at a time, and the panel's comes first.
void MethodTrial::RequestGhost() {
  if (!ghost_method_ || workbench_ == nullptr || ghost_method_->head != head_) return;
  const auto found = std::find_if(methods_.begin(), methods_.end(),
                                  [&](const kernels::MethodSpec& spec) { return spec.name == ghost_method_->method; });
  if (found == methods_.end()) return;
  kernels::ParameterValues values(*found);
  if (!values.Parse(*found, ghost_method_->parameters).empty()) return;
  const std::weak_ptr<MethodTrial*> weak = self_;
  const int64_t request = ++ghost_request_;
  workbench_->RequestMask(
      view_, *head_, found->name, values,
      [weak, request](LiveMask mask) {
        const auto self = weak.lock();
        if (!self) return;
        if ((*self)->ghost_request_ != request) {
          if ((*self)->workbench_ != nullptr) (*self)->workbench_->ForgetMask(mask.mask_id);
          return;
        }
        (*self)->ghost_ = std::move(mask);
        Q_EMIT(*self)->Changed();
      },
      [](const std::string&) {});  // a run that was measured has a mask; what went wrong with it, its run says
}

void MethodTrial::SetLiveWanted(bool wanted) {
  if (wanted == live_wanted_) return;
  live_wanted_ = wanted;
  if (wanted) {
    if (mask_ && !mask_pending_) RequestLive();
  } else {
    CancelLive();
    live_.reset();
    live_error_.clear();
  }
  Q_EMIT Changed();
}

void MethodTrial::CancelLive() {
  ++live_request_;
  if (live_pending_) workbench_->CancelLiveRun(view_);
  live_pending_ = live_waits_ = false;
}

void MethodTrial::SetMeasuring(bool measuring) {
  if (measuring == measuring_) return;
  measuring_ = measuring;
  if (measuring) {
    const bool was_pending = live_pending_;
    if (was_pending) CancelLive();
    live_waits_ = was_pending;
  } else if (live_waits_ && !mask_pending_) {  // else it follows its mask
    RequestLive();
  }
  Q_EMIT Changed();
}

void MethodTrial::RunLiveAgain() {
  if (workbench_ == nullptr) return;
  workbench_->ForgetDenseTimes(view_);
  if (mask_pending_ || (!live_ && !live_pending_)) return;  // of a mask on its way the run is yet to come
  RequestLive();
  Q_EMIT Changed();
}

void MethodTrial::RequestLive() {
  CancelLive();
  is_live_present_ = false;
  live_error_.clear();
  if (!live_wanted_ || workbench_ == nullptr || !mask_ || !head_) return;
  live_waits_ = measuring_;
  if (measuring_) return;
  live_pending_ = true;
  const int64_t request = live_request_;
  const auto receive = [weak = std::weak_ptr<MethodTrial*>(self_), request](const auto& act) {
    const auto self = weak.lock();
    if (!self || (*self)->live_request_ != request) return;
    act(**self);
    Q_EMIT(*self)->Changed();
  };
  workbench_->RequestLiveRun(
      view_, *head_, method()->name, values_, mask_->mask_id,
      [receive](const analysis::LiveRun& run) {
        receive([&](MethodTrial& trial) {
          trial.live_ = run;
          trial.is_live_present_ = true;
          trial.live_pending_ = !run.is_timed();
        });
      },
      [receive](std::string sentence) {
        receive([&](MethodTrial& trial) {
          trial.live_.reset();
          trial.live_pending_ = false;
          trial.live_error_ = std::move(sentence);
        });
      });
}

void MethodTrial::SetMeasuresAlone(bool alone) {
  if (alone == measures_alone_) return;
  measures_alone_ = alone;
  if (workbench_ == nullptr) return;
  workbench_->SetMeasuresAlone(alone);
  if (is_decode()) RequestMask();
}

void MethodTrial::SetMaskWanted(const void* who, bool by_them) {
  if (by_them) {
    mask_watchers_.insert(who);
  } else {
    mask_watchers_.erase(who);
  }
  const bool wanted = !mask_watchers_.empty();
  if (wanted == mask_wanted_) return;
  mask_wanted_ = wanted;
  if (wanted && !mask_) RequestMask();
}

const kernels::MethodSpec* MethodTrial::method() const {
  return method_index_ < methods_.size() ? &methods_[method_index_] : nullptr;
}

bool MethodTrial::is_decode() const {
  return method() != nullptr && method()->phase == kernels::Phase::kDecode;
}

kernels::ParameterValues MethodTrial::ValuesOf(const kernels::MethodSpec& spec) const {
  if (method() != nullptr && method()->name == spec.name) return values_;
  const auto remembered = remembered_.find(spec.name);
  return remembered != remembered_.end() ? remembered->second : kernels::ParameterValues(spec);
}

bool MethodTrial::SelectMethod(const std::string& name) {
  const auto found = std::find_if(methods_.begin(), methods_.end(),
                                  [&](const kernels::MethodSpec& spec) { return spec.name == name; });
  return found != methods_.end() && SelectMethod(name, ValuesOf(*found));
}

bool MethodTrial::SelectMethod(const std::string& name, const kernels::ParameterValues& values) {
  const auto found = std::find_if(methods_.begin(), methods_.end(),
                                  [&](const kernels::MethodSpec& spec) { return spec.name == name; });
  if (found == methods_.end()) return false;
  kernels::ParameterValues checked(*found);
  for (const auto& [parameter, value] : values.values()) {
    if (!checked.Set(*found, parameter, value).empty()) return false;
  }
  const auto index = static_cast<size_t>(found - methods_.begin());
  if (index == method_index_ && checked == values_) return true;
  if (const kernels::MethodSpec* present = method()) remembered_[present->name] = values_;
  method_index_ = index;
  values_ = checked;
  if (mask_pending_ && mask_wanted_) {
    mask_outdated_ = true;
    Q_EMIT Changed();
  } else {
    RequestMask();
  }
  Q_EMIT MethodChanged();
  return true;
}

void MethodTrial::StepMethod(int step) {
  if (methods_.empty()) return;
  const auto count = static_cast<int64_t>(methods_.size());
  const int64_t next = ((static_cast<int64_t>(method_index_) + step) % count + count) % count;
  SelectMethod(methods_[static_cast<size_t>(next)].name);
}

bool MethodTrial::SetValue(const std::string& name, double value) {
  const kernels::MethodSpec* const spec = method();
  if (spec == nullptr) return false;
  kernels::ParameterValues changed = values_;
  if (!changed.Set(*spec, name, value).empty()) return false;
  return SelectMethod(spec->name, changed);
}

void MethodTrial::ResetToDefaults() {
  if (const kernels::MethodSpec* spec = method()) SelectMethod(spec->name, kernels::ParameterValues(*spec));
}

void MethodTrial::SetTarget(double target) {
  if (std::isnan(target)) return;
  target = std::clamp(target, 0.0, kGreatestMassTarget);
  if (target == target_) return;
  target_ = target;
  Q_EMIT Changed();
  if (method() != nullptr) Q_EMIT MethodChanged();
}

void MethodTrial::SetBrush(const Brush& brush) {
  if (brush == brush_) return;
  brush_ = brush;
  Q_EMIT Changed();
}

void MethodTrial::AimAt(double target) {
  SetTarget(target);
  const kernels::MethodSpec* const spec = method();
  if (spec == nullptr) return;
  kernels::ParameterValues values = values_;
  for (const kernels::ParameterSpec& parameter : spec->parameters) {
    if (parameter.role != kernels::ParameterRole::kMassShare) continue;
    // Inside the parameter's range after the clamp.
    static_cast<void>(values.Set(*spec, parameter.name, std::clamp(target_, parameter.minimum, parameter.maximum)));
  }
  SelectMethod(spec->name, values);
}

void MethodTrial::RequestMask() {
  ++mask_request_;
  mask_error_.clear();
  mask_pending_ = mask_outdated_ = false;
  DropGhost();
  CancelLive();
  is_live_present_ = false;
  if (workbench_ == nullptr || method() == nullptr || !head_ || !mask_wanted_) {
    mask_.reset();  // it belongs to another head or to other parameters, or nobody looks
    live_.reset();
    live_error_.clear();
  } else {
    SendMaskRequest();
  }
  Q_EMIT Changed();
}

QString MethodTrial::WhyNoMask() const {
  if (mask_) return {};
  if (mask_pending_) return tr("The mask is being computed…");
  if (!mask_error_.empty()) return Shown(mask_error_);
  return tr("No mask: open a head and choose a method.");
}

void MethodTrial::SendMaskRequest() {
  mask_pending_ = true;
  DropGhost();  // it takes the ghost's place, which is asked for again behind it
  mask_outdated_ = false;
  const int64_t request = mask_request_;
  const std::weak_ptr<MethodTrial*> weak = self_;
  workbench_->RequestMask(
      view_, *head_, method()->name, values_,
      [weak, request](LiveMask mask) {
        const auto self = weak.lock();
        if (!self || (*self)->mask_request_ != request) return;
        MethodTrial& trial = **self;
        trial.mask_ = std::move(mask);
        trial.mask_error_.clear();
        trial.FinishMaskRequest();
        Q_EMIT trial.MaskReady(*trial.mask_);
        Q_EMIT trial.Changed();
      },
      [weak, request](std::string message) {
        const auto self = weak.lock();
        if (!self || (*self)->mask_request_ != request) return;
        MethodTrial& trial = **self;
        trial.mask_.reset();
        trial.live_.reset();
        trial.mask_error_ = std::move(message);
        trial.FinishMaskRequest();
        Q_EMIT trial.Changed();
      });
}

void MethodTrial::FinishMaskRequest() {
  mask_pending_ = false;
  if (mask_outdated_) {
    SendMaskRequest();
  } else {
    RequestGhost();
    RequestLive();
  }
}

void MethodTrial::FindWorstQuery() {
  if (workbench_ == nullptr || !mask_ || !head_) return;
  const int64_t row = mask_->distribution.worst_row, first = mask_->steps ? mask_->steps->first_row : 0;
  const auto kept = static_cast<double>(mask_->kept_mass.at(static_cast<size_t>(row - first)));
  workbench_->RequestLostKeys(
      *head_, mask_->mask_id, row,
      [weak = std::weak_ptr<MethodTrial*>(self_), of = *head_, row, kept](const std::vector<LostKey>& lost) {
        const auto self = weak.lock();
        if (self && (*self)->head_ == of) Q_EMIT(*self)->WorstQueryFound(row, kept, lost);
      });
}

bool MethodTrial::Run(int repeats) {
  const kernels::MethodSpec* const spec = method();
  if (running_ || workbench_ == nullptr || spec == nullptr || !head_) return false;
  running_ = true;
  run_error_.clear();
  progress_ = {};
  const int64_t request = ++run_request_;
  Q_EMIT RunStarted();
  const std::weak_ptr<MethodTrial*> weak = self_;
  const auto receive = [weak, request](const auto& act) {
    const auto self = weak.lock();
    if (self && (*self)->run_request_ == request && (*self)->running_) act(**self);
  };
  workbench_->RunMethod(
      *head_, spec->name, values_, repeats,
      [receive](analysis::MethodResult result) {
        receive([&](MethodTrial& trial) {
          trial.running_ = false;
          trial.result_ = std::move(result);
          ++trial.num_results_;
          Q_EMIT trial.RunFinished(*trial.result_);
          Q_EMIT trial.Changed();
        });
      },
      [receive](Refusal refusal) {
        receive([&](MethodTrial& trial) {
          trial.running_ = false;
          trial.run_error_ = std::move(refusal.sentence);
          Q_EMIT trial.RunFailed(QString::fromStdString(trial.run_error_));
          Q_EMIT trial.Changed();
        });
      },
      [receive](ProgressReport progress) {
        receive([&](MethodTrial& trial) {
          trial.progress_ = std::move(progress);
          Q_EMIT trial.RunProgressed(trial.progress_);
          Q_EMIT trial.Changed();
        });
      });
  Q_EMIT Changed();
  return true;
}

void MethodTrial::ShowResult(const analysis::MethodResult& result) {
  if (head_ != result.head) return;
  result_ = result;
  run_error_.clear();
  ++num_results_;
  Q_EMIT Changed();
}

void MethodTrial::CancelRun() {
  if (!running_) return;
  running_ = false;
  ++run_request_;
  if (workbench_ != nullptr) workbench_->CancelRun();
  Q_EMIT Changed();
}

}  // namespace headscope::ui
