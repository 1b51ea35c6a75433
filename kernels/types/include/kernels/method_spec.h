// SPDX-License-Identifier: Apache-2.0
// What a method says of itself: the one source of the command line's options, the window's controls, the tuner's search
// space, `headscope methods` and the tables in docs/. Code outside a method's own file decides by these traits, never
// by a name or a text. Plain data: any room may include this header.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::kernels {

enum class Phase { kPrefill, kDecode };

enum class ParameterType {
  kInteger,
  kReal,
  kFlag,
  kChoice,  // one of ParameterSpec::choices; its value is the place in that list
};

// What a parameter counts. Its text (UnitText) and what bounds it (LargestUseful) follow from this.
enum class Unit {
  kNone,  // a pure number
  kTokens,
  kColumns,
  kSlashes,
  kRows,
  kBlocks,      // of tokens_per_unit tokens
  kChunks,      // regions of rows
  kComponents,  // of a head's vectors
  kShareOfMass,
  kShareOfParameter,  // ParameterSpec::share_of names it
};

// What limits how large a value of a unit makes a difference.
enum class Bound {
  kNothing,
  kSeqLen,   // the number of tokens
  kBlocks,   // the number of blocks of tokens_per_unit tokens
  kHeadDim,  // the components of a head's vectors
};
Bound BoundOf(Unit unit);

// What a parameter is to somebody who looks for the cheapest setting that still keeps a given mass.
enum class ParameterRole {
  kOther,
  // Says how much is kept: a larger value never drops a pair that a smaller one keeps, so bisection finds the least
  // value for a target.
  kBudget,
  // A budget that is itself a share of attention mass, 0 to 1: a target for the kept mass can be written straight into
  // it.
  kMassShare,
  // Says how much is kept as well, but a larger value may drop a pair that a smaller one keeps: a search tries values
  // spread over the range.
  kAmount,
};

// Written with designated initialisers: what is left out has the value below.
struct ParameterSpec {
  std::string name = {};  // as typed: lower case, underscores
  ParameterType type = ParameterType::kInteger;
  double default_value = 0;
  double minimum = 0;        // legal range, inclusive
  double maximum = 1;        // of a choice: the number of choices less 1
  double step = 1;           // what one notch of a slider or one tuner step changes
  bool logarithmic = false;  // sliders and the tuner move by factors
  Unit unit = Unit::kNone;
  std::string share_of = {};  // of Unit::kShareOfParameter: that parameter's name
  std::string help = {};      // one line
  std::string cost = {};      // what raising it costs, one line
  ParameterRole role = ParameterRole::kOther;
  // The length in tokens or blocks, mostly a budget, in whose place this parameter, a share of the tokens, says how
  // much is kept while it is above 0. Empty: it is something else.
  std::string instead_of = {};
  // Of a budget whose least legal value means something else ("0: by the ratio"): the least one that says how much is
  // kept.
  double least_budget = 0;
  int32_t tokens_per_unit = 1;  // of blocks: how many tokens one has
  // Above 0: the default is meant for long prompts. A demonstration on a short one shrinks it in proportion, down to
  // this.
  double scaled_floor = 0;
  std::vector<std::string> choices = {};  // of ParameterType::kChoice: their names, as typed
  // It says something only while that parameter, a choice, is the `only_at`-th; empty: always.
  std::string only_with = {};
  double only_at = 0;
};

// By what a method tells apart what it keeps.
enum class ChosenPer {
  kPlace,      // positions and the head's number alone: whatever Q, K and V hold, the choice is the same
  kQueryHead,  // by the tensors, for every query head
  kKvHead,     // by the tensors, for the query heads of a KV head together
};

// An entry of MInference's configuration files: [name, a, b, score], where a and b are parameters of the method.
struct MInferencePattern {
  std::string name = {};  // "vertical_and_slash"
  // The parameters that a and b are; empty: that number says nothing, and is written as 0.
  std::string first = {}, second = {};
  // What MInference's published code makes of an entry where that is more than the entry says: values of other
  // parameters ("forced_columns=30,.."), and the least that a and b count as.
  std::string as_published = {};
  int32_t least_first = 0, least_second = 0;
};

// An entry of the kvpress library's evaluation (its PRESS_REGISTRY) that a method is under some settings.
struct KvpressEntry {
  std::string name = {};    // "snapkv"
  std::string values = {};  // "k=v,..": where the entry's settings are not the method's defaults
  // Parameters that its user gives beside the name; all others must be the entry's.
  std::vector<std::string> given = {"compression_ratio", "budget"};
};

struct MethodSpec {
  std::string name = {};     // as typed: "vertical-slash"
  std::string title = {};    // as shown: "MInference vertical-slash"
  std::string family = {};   // as shown: "static pattern", "dynamic pattern", ...
  std::string paper = {};    // title and section of the source
  std::string summary = {};  // one line
  // One line each: what no score leaves out, and what selecting takes beside attending, of S tokens and heads of d
  // components.
  std::string always_keeps = {}, selection_cost = {};
  Phase phase = Phase::kPrefill;

  // Traits.
  bool baseline = false;  // keeps everything and has no parameters: what others are compared with
  ChosenPer chosen_per = ChosenPer::kPlace;
  bool keeps_state = false;    // has something of its own beside the KV cache, which grows with it from step to step
  bool needs_history = false;  // chooses by the steps before as well: a step cannot be had without these
  bool reads_v = false;        // with some setting at least, its choice or what it adds to the output is made of V
  bool reads_output = false;   // learns from the attention that its own steps had
  // Decode: names tokens or pages, unweighted, and lets none go, so that another method may go on from what it names.
  bool gives_candidates = false;
  // How MInference's configuration files write it; without a name they have no word for it.
  MInferencePattern minference = {};
  std::vector<KvpressEntry> kvpress = {};

  std::vector<ParameterSpec> parameters = {};

  // Chooses without looking at Q, K and V.
  bool IsStatic() const { return chosen_per == ChosenPer::kPlace; }
};

// "tokens", "share of mass", "share of k", ..; empty for a pure number. `one`: of a count of one, "token".
std::string UnitText(const ParameterSpec& spec, bool one = false);
// "place", "query head" or "KV head".
std::string_view NameOf(ChosenPer chosen_per);
// The largest value that makes a difference for a sequence of num_tokens and heads of head_dim components (0: not
// known). A value above it is legal where the parameter's own range has it.
double LargestUseful(const ParameterSpec& spec, int64_t num_tokens, int64_t head_dim);

// A value as it is typed: a choice by its name, other values by the shortest text that reads back as the same double.
std::string ValueText(const ParameterSpec& spec, double value);

// Values of a method's parameters, defaults first; every one was checked when it came in. Real, integer and flag values
// and the places of choices are all held as doubles; integers are exact to 2^53.
class ParameterValues {
 public:
  ParameterValues() = default;
  explicit ParameterValues(const MethodSpec& spec);  // the defaults

  // Sets one value. Returns an empty string, or one sentence: the parameter, the value and the legal range or the known
  // names.
  std::string Set(const MethodSpec& spec, std::string_view name, double value);
  // Parses "name=value,name=value" over the present values: a number, of a flag also true/false, on/off or yes/no, of a
  // choice one of its names. Same errors as Set; nothing is changed on error.
  std::string Parse(const MethodSpec& spec, std::string_view text);
  // Whether these are values of that method, every parameter's: an empty string, or one sentence.
  std::string Check(const MethodSpec& spec) const;

  double Real(std::string_view name) const;
  int Integer(std::string_view name) const;
  bool Flag(std::string_view name) const { return Real(name) != 0; }
  // Of an enumeration whose values are listed in the order of ParameterSpec::choices, from 0 on.
  template <typename Enumeration>
  Enumeration Choice(std::string_view name) const {
    return static_cast<Enumeration>(Integer(name));
  }
  // "name=value,..." with every parameter, in the spec's order, as Parse() reads it.
  std::string ToString(const MethodSpec& spec) const;
  // As above, of those parameters alone whose value is another one in `other`; empty: none.
  std::string Difference(const MethodSpec& spec, const ParameterValues& other) const;
  // Whether the parameter says something beside the others' values.
  bool Matters(const ParameterSpec& parameter) const {
    return parameter.only_with.empty() || Real(parameter.only_with) == parameter.only_at;
  }
  const std::map<std::string, double, std::less<>>& values() const { return values_; }
  friend bool operator==(const ParameterValues&, const ParameterValues&) = default;

 private:
  std::map<std::string, double, std::less<>> values_;
};

// The entry of the kvpress library that a method is under these values; empty: none.
std::string KvpressName(const MethodSpec& spec, const ParameterValues& values);

}  // namespace headscope::kernels
