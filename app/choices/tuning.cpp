// SPDX-License-Identifier: Apache-2.0
#include "choices/tuning.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "analysis/types/number_text.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "choices/head_selection.h"
#include "choices/target_names.h"
#include "support/listed.h"

namespace headscope::app {
namespace {

using kernels::ParameterSpec;

std::set<std::string> DevicesOf(const Tuning& tuning) {
  std::set<std::string> devices;
  for (const TunedHead& head : tuning.heads) devices.insert(head.device.name);
  return devices;
}

bool AnyCut(const Tuning& tuning) {
  return std::any_of(tuning.traces.begin(), tuning.traces.end(),
                     [](const Tuning::Source& source) { return source.first_token > 0; });
}

double MeanKept(const Tuning& tuning) {
  double sum = 0;
  for (const TunedHead& head : tuning.heads) sum += head.found.kept_fraction;
  return tuning.heads.empty() ? 0 : sum / static_cast<double>(tuning.heads.size());
}

// Under a limit: what settings do on the held-out rows beside the others. Means over the heads.
std::string QualityOnRows(const Tuning& tuning) {
  double error[2] = {}, mass[2] = {};
  double count = 0;
  for (const TunedHead& head : tuning.heads) {
    if (!head.checked) continue;
    ++count;
    error[0] += head.checked->relative_error;
    error[1] += head.found.relative_error;
    mass[0] += head.checked->mass.mean;
    mass[1] += head.found.mass.mean;
  }
  if (count == 0) return "nothing was tried on the held-out rows";
  const bool by_error = tuning.criterion == TunedCriterion::kError && !std::isnan(error[0] + error[1]);
  const auto& sums = by_error ? error : mass;
  std::ostringstream out;
  out << std::fixed << std::setprecision(4)
      << (by_error ? "the mean error of the output is " : "the mean kept mass is ") << sums[0] / count
      << " on the held-out rows and " << sums[1] / count << " on the others";
  return out.str();
}

std::string HeadsText(const std::vector<analysis::HeadId>& heads) {
  const std::string first = HeadText(heads.front());
  return heads.size() == 1 ? first : first + ".." + HeadText(heads.back());
}

// The columns that say which setting a head has: the budgets of the one method, or any method and its budgets.
class SettingColumns {
 public:
  explicit SettingColumns(const Tuning& tuning) : tuning_(tuning) {
    if (tuning.methods.size() == 1) {
      budgets_ = analysis::Budgets(*tuning.methods.front().choice.spec);
      return;
    }
    for (const TunedHead& head : tuning.heads) {
      const MethodChoice& method = tuning.MethodOf(head);
      method_width_ = std::max(method_width_, static_cast<int>(MethodLabel(tuning, head.method).size()));
      text_width_ = std::max(text_width_, static_cast<int>(BudgetText(method, head.found.values).size()));
    }
  }

  void Names(std::ostream& out) const {
    if (budgets_.empty()) {
      out << "  " << std::left << std::setw(method_width_) << "method"
          << "  " << std::setw(text_width_) << "budgets" << std::right;
    }
    for (const ParameterSpec* budget : budgets_) out << std::setw(Width(*budget)) << budget->name;
  }
  void Units(std::ostream& out) const {
    if (budgets_.empty()) out << std::setw(method_width_ + text_width_ + 4) << "";
    for (const ParameterSpec* budget : budgets_) out << std::setw(Width(*budget)) << UnitText(*budget);
  }
  void Values(const TunedHead& head, std::ostream& out) const {
    const MethodChoice& method = tuning_.MethodOf(head);
    if (budgets_.empty()) {
      out << "  " << std::left << std::setw(method_width_) << MethodLabel(tuning_, head.method) << "  "
          << std::setw(text_width_) << BudgetText(method, head.found.values) << std::right;
    }
    for (const ParameterSpec* budget : budgets_)
      out << std::setw(Width(*budget)) << analysis::ShortestNumber(head.found.values.Real(budget->name));
  }

 private:
  static int Width(const ParameterSpec& budget) {
    return std::max({11, static_cast<int>(budget.name.size()) + 2, static_cast<int>(UnitText(budget).size()) + 2});
  }

  const Tuning& tuning_;
  std::vector<const ParameterSpec*> budgets_;  // empty: several methods
  int method_width_ = 6, text_width_ = 7;
};

// What was measured beside the masses.
struct Measures {
  bool errors = false, times = false, work = false;
};

void WriteQuality(const analysis::BudgetSearchResult& found, Measures measures, std::ostream& out) {
  out << std::fixed << std::setprecision(1) << std::setw(8) << 100 * found.kept_fraction << " %" << std::setprecision(4)
      << std::setw(9) << found.mass.minimum << std::setw(9) << found.mass.fifth_percentile << std::setw(10)
      << found.mass.mean;
  if (measures.errors) out << std::setw(9) << found.relative_error;
  if (measures.times) out << std::setprecision(3) << std::setw(9) << found.time_share;
  if (measures.work) out << std::setprecision(1) << std::setw(8) << 100 * found.work_share << " %";
}

// Pairs, or what was measured beside them.
double Cost(const analysis::TradeOffPoint& point) {
  return std::isnan(point.time_share) ? point.kept_fraction : point.time_share;
}

// Whether the output's error says which of two settings is the better one; else the kept mass does.
bool IsByError(const Tuning& tuning) {
  return tuning.target.budget.kind == analysis::BudgetTarget::Kind::kError ||
         tuning.criterion == TunedCriterion::kError;
}

// What is gained for it, the more the better.
double Gain(const analysis::TradeOffPoint& point, bool by_error) {
  return by_error ? -point.relative_error : point.cra_mean;
}

void WriteFronts(const Tuning& tuning, std::ostream& out) {
  if (tuning.fronts.empty()) return;
  const auto any = [&](double analysis::TradeOffPoint::*of) {
    return std::ranges::any_of(tuning.fronts, [of](const TunedFront& front) {
      return std::ranges::any_of(front.points, [of](const auto& point) { return !std::isnan(point.*of); });
    });
  };
  const bool errors = any(&analysis::TradeOffPoint::relative_error), times = any(&analysis::TradeOffPoint::time_share);
  out << "\nTrade-off: the settings that keep the most mass for their pairs; * where no other method "
      << (IsByError(tuning) ? "has a smaller error " : "keeps more mass ")
      << (times ? "in less time" : "for fewer pairs") << ".\n"
      << std::left << std::setw(12) << "head" << std::right << std::setw(8) << "kept" << std::setw(9) << "CRA mean"
      << (errors ? "    error" : "") << (times ? "     time" : "") << '\n';
  for (const TunedFront& front : tuning.fronts) {
    const MethodChoice& method = tuning.methods[front.method].choice;
    const std::vector<bool> undominated = Undominated(tuning, front);
    for (size_t i = 0; i < front.points.size(); ++i) {
      const analysis::TradeOffPoint& point = front.points[i];
      out << std::left << std::setw(12) << HeadsText(front.heads) << std::right << std::fixed << std::setprecision(1)
          << std::setw(6) << 100 * point.kept_fraction << " %" << std::setprecision(4) << std::setw(9)
          << point.cra_mean;
      if (errors) out << std::setw(9) << point.relative_error;
      if (times) out << std::setprecision(3) << std::setw(9) << point.time_share;
      out << (undominated[i] ? " * " : "   ") << method.name << ':' << BudgetText(method, point.values) << '\n';
    }
  }
}

// What a target's number is, and which numbers that can be.
std::pair<const char*, const char*> NumberOf(analysis::BudgetTarget::Kind kind) {
  using Kind = analysis::BudgetTarget::Kind;
  switch (kind) {
    case Kind::kMass:
      return {"a share of a row's mass", "between 0 and 1"};
    case Kind::kKept:
      return {"a share of the pairs", "between 0 and 1, or a setting whose pairs are the limit, METHOD:k=v,.."};
    case Kind::kWork:
      return {"a share of the pairs", "above 0, or a setting whose work is the limit, METHOD:k=v,.."};
    case Kind::kTime:
      return {"a share of dense attention's time", "above 0, as in 0.5"};
    case Kind::kError:
      return {"a relative error", "above 0"};
  }
  return {};
}

}  // namespace

bool Tuning::HasErrors() const {
  return std::ranges::any_of(heads, [](const TunedHead& head) { return !std::isnan(head.found.relative_error); });
}

bool Tuning::HasTimes() const {
  return std::ranges::any_of(heads, [](const TunedHead& head) { return !std::isnan(head.found.time_share); });
}

bool Tuning::HasWork() const {
  return std::ranges::any_of(heads, [](const TunedHead& head) { return !std::isnan(head.found.work_share); });
}

std::string MethodLabel(const Tuning& tuning, size_t method) {
  const MethodChoice& choice = tuning.methods[method].choice;
  if (std::ranges::count_if(tuning.methods, [&](const auto& other) { return other.choice.name == choice.name; }) == 1)
    return choice.name;
  const std::string given = choice.values.Difference(*choice.spec, kernels::ParameterValues(*choice.spec));
  return given.empty() ? choice.name : choice.name + ":" + given;
}

std::string BudgetText(const MethodChoice& method, const kernels::ParameterValues& values) {
  std::string text;
  for (const ParameterSpec* budget : analysis::Budgets(*method.spec)) {
    text += (text.empty() ? "" : ",") + budget->name + "=" + ValueText(*budget, values.Real(budget->name));
  }
  return text;
}

std::vector<bool> Undominated(const Tuning& tuning, const TunedFront& front) {
  std::vector<bool> undominated(front.points.size(), true);
  const bool by_error = IsByError(tuning);
  for (const TunedFront& other : tuning.fronts) {
    if (other.heads != front.heads || other.method == front.method) continue;
    for (size_t i = 0; i < front.points.size(); ++i) {
      const analysis::TradeOffPoint& mine = front.points[i];
      undominated[i] = undominated[i] && std::ranges::none_of(other.points, [&](const analysis::TradeOffPoint& theirs) {
                         const double gain = Gain(theirs, by_error) - Gain(mine, by_error);
                         return Cost(theirs) <= Cost(mine) && gain >= 0 && (Cost(theirs) < Cost(mine) || gain > 0);
                       });
    }
  }
  return undominated;
}

TuneTarget ParseTarget(const std::string& text) {
  using Kind = analysis::BudgetTarget::Kind;
  const size_t sign = text.find('=');
  const std::string name = text.substr(0, sign);
  const auto* const known = std::find_if(std::begin(kTargetNames), std::end(kTargetNames),
                                         [&](const TargetName& target) { return name == target.option; });
  if (sign == std::string::npos || known == std::end(kTargetNames)) {
    throw UsageError(
        {.field = "target",
         .value = Quoted(text),
         .problem = "it is not STATISTIC=NUMBER",
         .remedy = "choose the statistic from " + Listed(kTargetNames, &TargetName::option) + ", as in cra=0.95"});
  }
  TuneTarget target;
  target.text = text;
  target.budget.kind = known->kind;
  target.budget.statistic = known->statistic;
  const std::string number = text.substr(sign + 1);
  double value = 0;
  const auto [parsed, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool is_number = error == std::errc() && parsed == number.data() + number.size();
  if ((known->kind == Kind::kKept || known->kind == Kind::kWork) && !is_number && !number.empty() &&
      std::isalpha(static_cast<unsigned char>(number.front()))) {
    target.limit = ParseMethod(number, "target");
    return target;
  }
  const double largest = known->kind == Kind::kMass || known->kind == Kind::kKept ? 1 : 1e6;
  if (!is_number || !(value > 0 && value < largest)) {
    const auto [what, remedy] = NumberOf(known->kind);
    throw UsageError({.field = "target",
                      .value = Quoted(text),
                      .problem = Quoted(number) + " is not " + what,
                      .remedy = std::string("give a number ") + remedy});
  }
  (known->kind == Kind::kMass ? target.budget.mass : target.budget.most) = value;
  return target;
}

std::vector<std::vector<analysis::HeadId>> UnitsOf(const std::vector<analysis::HeadId>& heads, TunedUnit unit) {
  std::vector<std::vector<analysis::HeadId>> units;
  for (size_t i = 0; i < heads.size(); ++i) {
    const bool joins =
        i > 0 && (unit == TunedUnit::kModel || (unit == TunedUnit::kLayer && heads[i].layer == heads[i - 1].layer));
    if (!joins) units.emplace_back();
    units.back().push_back(heads[i]);
  }
  return units;
}

bool IsLimitOfPairs(const analysis::BudgetTarget& target) {
  return target.kind == analysis::BudgetTarget::Kind::kKept || target.kind == analysis::BudgetTarget::Kind::kWork;
}

TunedCriterion UsualCriterion(const analysis::BudgetTarget& target, size_t num_methods) {
  return num_methods > 1 && IsLimitOfPairs(target) ? TunedCriterion::kError : TunedCriterion::kMass;
}

std::optional<TunedCriterion> ParseCriterion(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "mass") return TunedCriterion::kMass;
  if (text == "error") return TunedCriterion::kError;
  throw UsageError({.field = "choose", .value = Quoted(text), .problem = "choose mass or error"});
}

TunedCriterion CriterionOf(std::optional<TunedCriterion> asked, const analysis::BudgetTarget& target,
                           size_t num_methods) {
  if (!asked) return UsualCriterion(target, num_methods);
  if (*asked == TunedCriterion::kMass) return TunedCriterion::kMass;
  if (!IsLimitOfPairs(target) && num_methods > 1)
    throw UsageError({.field = "choose",
                      .value = "error",
                      .problem = "this target is reached by the fewest pairs",
                      .remedy = "choose by the error under a target for the pairs (kept=..)"});
  return TunedCriterion::kError;
}

bool IsBetter(const analysis::BudgetTarget& target, TunedCriterion criterion,
              const std::vector<analysis::BudgetSearchResult>& a, const std::vector<analysis::BudgetSearchResult>& b) {
  if (a.front().reached != b.front().reached) return a.front().reached;
  const auto sum = [](const std::vector<analysis::BudgetSearchResult>& results, const auto& of) {
    double total = 0;
    for (const analysis::BudgetSearchResult& result : results) total += of(result);
    return total;
  };
  const auto kept = [](const analysis::BudgetSearchResult& result) { return result.kept_fraction; };
  const auto error = [](const analysis::BudgetSearchResult& result) { return result.relative_error; };
  const auto time = [](const analysis::BudgetSearchResult& result) { return result.time_share; };
  const auto work = [](const analysis::BudgetSearchResult& result) { return result.work_share; };
  switch (target.kind) {
    case analysis::BudgetTarget::Kind::kKept:
      if (!a.front().reached) return sum(a, kept) < sum(b, kept);
      if (criterion == TunedCriterion::kError) return sum(a, error) < sum(b, error);
      break;
    case analysis::BudgetTarget::Kind::kWork:
      if (!a.front().reached) return sum(a, work) < sum(b, work);
      if (criterion == TunedCriterion::kError) return sum(a, error) < sum(b, error);
      break;
    case analysis::BudgetTarget::Kind::kTime:
      if (!a.front().reached) return sum(a, time) < sum(b, time);
      break;
    case analysis::BudgetTarget::Kind::kError:
      return a.front().reached ? sum(a, kept) < sum(b, kept) : sum(a, error) < sum(b, error);
    case analysis::BudgetTarget::Kind::kMass:
      if (a.front().reached) return sum(a, kept) < sum(b, kept);
      break;
  }
  const auto mass = [&](const analysis::BudgetSearchResult& result) { return result.mass.Value(target.statistic); };
  return sum(a, mass) > sum(b, mass);
}

bool HasVerdictOnChecks(const Tuning& tuning) {
  using Kind = analysis::BudgetTarget::Kind;
  const Kind kind = tuning.target.budget.kind;
  return tuning.held_out_rows.empty() || kind == Kind::kMass || kind == Kind::kError;
}

std::string TuningTable(const Tuning& tuning) {
  const SettingColumns setting(tuning);
  std::ostringstream out;
  const bool cut = AnyCut(tuning), checked = !tuning.checks.empty();
  const Measures measures{tuning.HasErrors(), tuning.HasTimes(), tuning.HasWork()};
  const auto quality_names = [&](const char* kept) {
    out << std::setw(10) << kept << std::setw(9) << "CRA min" << std::setw(9) << "CRA p5" << std::setw(10) << "CRA mean"
        << (measures.errors ? "    error" : "") << (measures.times ? "     time" : "")
        << (measures.work ? "      work" : "");
  };
  const auto quality_units = [&](const char* kept) {
    out << std::setw(10) << kept << std::setw(28) << "share of a row's mass" << (measures.errors ? " relative" : "")
        << (measures.times ? " of dense" : "") << (measures.work ? "  of pairs" : "");
  };
  out << std::left << std::setw(8) << "head" << std::right;
  setting.Names(out);
  quality_names("kept");
  // The column of "met" is as wide as the target above it only where others follow.
  const auto padded = [&](const std::string& text) {
    const size_t width = checked ? std::max<size_t>(7, tuning.target.text.size()) : 0;
    return "  " + text + std::string(std::max(width, text.size()) - text.size(), ' ');
  };
  out << (cut ? "   outside" : "") << padded("target");
  if (checked) quality_names("| there");
  const bool judged = checked && HasVerdictOnChecks(tuning);
  out << (judged ? "  target\n" : "\n") << std::setw(8) << "";
  setting.Units(out);
  quality_units(cut ? "of part's" : "of pairs");
  out << (cut ? "          " : "") << padded(tuning.target.text);
  if (checked) {
    quality_units("| of pairs");
  }
  out << '\n';
  for (const TunedHead& head : tuning.heads) {
    out << std::left << std::setw(8) << HeadText(head.id) << std::right;
    setting.Values(head, out);
    WriteQuality(head.found, measures, out);
    if (cut) out << std::setw(10) << head.outside_mass;
    out << padded(head.found.reached ? "met" : "NOT met");
    if (head.checked) {
      WriteQuality(*head.checked, measures, out);
      if (judged) out << (head.checked->reached ? "  met" : "  NOT met");
    }
    out << '\n';
  }
  if (checked) {
    out << "Right of the bar, \"there\": the same settings on";
    if (!tuning.held_out_rows.empty()) out << " the rows " << tuning.held_out_rows << " of";
    for (const Tuning::Source& source : tuning.checks) out << ' ' << source.path;
    out << ", which were not tuned on";
    out << (tuning.held_out_rows.empty() ? ".\n" : ". Kept, work and time are of all rows.\n");
  }
  if (cut) {
    out << "Part of a longer trace: kept counts the pairs inside the part; \"outside\" is the mean share of a row's "
           "mass on the tokens before it, which no setting can keep.\n";
  }
  WriteFronts(tuning, out);
  return out.str();
}

std::string TuningSummary(const Tuning& tuning) {
  std::vector<std::string> unmet;
  size_t checked_met = 0;
  for (const TunedHead& head : tuning.heads) {
    if (!head.found.reached) unmet.push_back(HeadText(head.id));
    checked_met += head.checked && head.checked->reached ? 1 : 0;
  }
  std::ostringstream out;
  if (!tuning.complete()) out << "only " << tuning.heads.size() << " of " << tuning.num_heads_chosen << " heads done: ";
  out << tuning.heads.size() - unmet.size() << " of " << tuning.heads.size()
      << (tuning.heads.size() == 1 ? " head reaches " : " heads reach ") << tuning.target.text << ", keeping "
      << std::fixed << std::setprecision(1) << 100 * MeanKept(tuning)
      << " % of the pairs on average, with masses computed on " << Listed(DevicesOf(tuning));
  if (!tuning.checks.empty() && HasVerdictOnChecks(tuning)) {
    out << "; on the held-out " << (tuning.held_out_rows.empty() ? "traces, " : "rows, ") << checked_met
        << " of them do";
  } else if (!tuning.checks.empty()) {
    out << "; " << QualityOnRows(tuning);
  }
  if (!unmet.empty()) {
    constexpr size_t kNamed = 8;  // the table and the file say it of every head
    const size_t others = unmet.size() > kNamed ? unmet.size() - kNamed : 0;
    unmet.resize(unmet.size() - others);
    if (others > 0) unmet.push_back(std::to_string(others) + (others == 1 ? " other" : " others"));
    using Kind = analysis::BudgetTarget::Kind;
    const Kind kind = tuning.target.budget.kind;
    if (kind == Kind::kKept || kind == Kind::kTime || kind == Kind::kWork) {
      out << "; even the smallest budgets, which are written for them, " << (kind == Kind::kKept ? "keep" : "take")
          << " more for " << Listed(unmet) << ": take a higher limit or other parameters there";
    } else {
      out << "; even the largest budgets, which are written for them, are not enough for " << Listed(unmet)
          << ": take a lower target or other parameters there";
    }
  }
  if (tuning.methods.size() > 1) {
    out << "; ";
    for (size_t i = 0; i < tuning.methods.size(); ++i) {
      const auto heads = std::ranges::count_if(tuning.heads, [i](const TunedHead& head) { return head.method == i; });
      out << (i == 0 ? "" : ", ") << MethodLabel(tuning, i) << " for " << heads;
    }
  }
  out << "; searched: ";
  std::set<std::string> said;  // of a method with several starts, each step once
  for (const Tuning::Searched& method : tuning.methods) {
    for (const analysis::SearchedBudget& budget : method.grid) {
      const std::string range = (tuning.methods.size() > 1 ? method.choice.name + " " : "") + budget.name + " from " +
                                analysis::ShortestNumber(budget.minimum) + " to " +
                                analysis::ShortestNumber(budget.maximum) + " by " +
                                analysis::ShortestNumber(budget.step);
      if (!said.insert(range).second) continue;
      out << (said.size() == 1 ? "" : ", ") << range;
    }
  }
  return out.str();
}

}  // namespace headscope::app
