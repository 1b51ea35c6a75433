// SPDX-License-Identifier: Apache-2.0
// What a picture of a head's map says of itself: the window's own picture, those of `headscope render` and those of a
// report say it in these words. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/kept_steps.h"
#include "analysis/types/mask_overlap.h"
#include "analysis/types/tile.h"

namespace headscope::analysis {

enum class ViewKind {
  kScores,      // probability
  kMask,        // share of a pixel's pairs that the mask keeps
  kDifference,  // probability under the mask less dense probability
  kOverlay,     // probability, in colours where the mask keeps and grey where it does not
  kLost,        // the same the other way round
  kOther,       // probability of another head less this one's
  kOverlap,     // which of two masks keeps a pair
};
// The colours stand for less and for more.
constexpr bool IsSigned(ViewKind view) {
  return view == ViewKind::kDifference || view == ViewKind::kOther;
}

// Of what trace a map is; texts of a file are printable (analysis/types/printable.h).
struct MapSource {
  std::string model_name, prompt_source;
  std::string trace;  // its file's name
  int64_t num_tokens = 0;
  int64_t first_token = 0;  // where it was cut from a longer one; 0: a whole one
};

// A method whose mask the map shows.
struct MapMethod {
  std::string title;     // for people: "Vertical-slash"
  MaskSummary summary;   // what it keeps
  int64_t num_rows = 0;  // whose kept mass the summary is of
  // Of a decode method, whose rows are steps: on which of them it was tried, and who shares a choice. Empty: neither.
  bool of_steps = false;
  std::string steps = {}, choice = {};
};

struct MapOnShow {
  ViewKind view = ViewKind::kScores;
  HeadId head;
  int32_t kv_head = -1;  // that the head reads; -1: not known
  MapSource source;
  int64_t first_query = 0, last_query = 0, first_key = 0, last_key = 0;  // tokens at the edges of what is drawn
  TileReduction reduction = TileReduction::kMax;
  bool logarithmic = true;
  bool profiles = false;                          // the curves beside the map
  bool causal = true;                             // keys after the query are hatched
  bool answers = false;                           // a task's answer is marked on the axes, in what is drawn
  std::optional<MapMethod> method, other_method;  // the other one of kOverlap
  std::optional<MaskOverlap> overlap;             // of kOverlap, over the whole head
  std::optional<HeadId> other_head;               // of kOther
  std::string other_trace;                        // its trace's file name; empty: the same trace
  int64_t compared_rows = 0;                      // of kOther with a shorter trace: the first ones; 0: all
  // Of a cut trace: the mean share of the rows' attention that lies on tokens before the cut, whatever is kept.
  double outside_mass = 0;
};

struct MapCaption {
  std::string title;               // which head
  std::string source;              // of what, and which part of it
  std::vector<std::string> lines;  // colours, curves, methods and what they keep; each may be longer than the picture

  std::string Legend() const;  // the lines as one text
};
MapCaption DescribeMap(const MapOnShow& map);
// The text in lines of at most `width`, of letters of this size: about, for what measures letters is not at hand
// everywhere and all pictures should break at the same words. A word that is longer stands alone.
std::vector<std::string> WrapWords(const std::string& text, double width, double size);

// Over the colour bar, in two lines: the quantity with its scale, and of which scores of a pixel it is.
std::array<std::string, 2> DescribeColorBar(const MapOnShow& map);

// Of the two masks of kOverlap, by who keeps a score: "1 Vertical-slash only", with the overlap ": 3.20 % (1,234
// scores)".
std::array<std::string, kNumKeptBy> DescribeOverlap(const std::string& first, const std::string& second,
                                                    const std::optional<MaskOverlap>& overlap);
// Which queries a decode method was tried on, and why these: the trace's own decode steps, of which `recorded` are
// there, or its last rows.
std::string DescribeSteps(const KeptSteps& kept, int64_t recorded);
// Who shares a decode method's choice of keys: "chosen per KV head, one selection for query heads 4 to 7", those of the
// group that are recorded. Empty where keys are chosen by place.
std::string DescribeChoice(kernels::ChosenPer chosen_per, const std::vector<int32_t>& heads_of_group);
// "CRA of 4,090 queries: min 0.612, 5th percentile 0.931, mean 0.983"; of few queries without a percentile.
std::string DescribeCra(const MaskSummary& summary, int64_t num_rows, bool of_steps);
// "58.1 % of the attention lies on tokens before the cut"; empty of 0.
std::string DescribeOutsideMass(double outside_mass);

// The greatest value of a profile and the scores that it stands for: [begin, end).
struct ProfilePeak {
  float value = 0;
  int64_t begin = 0, end = 0;
};
// What the profile of the keys shows, and its greatest value, if one is known; in a narrow place without saying over
// which queries.
std::string DescribeKeyProfile(const std::optional<ProfilePeak>& peak, bool narrow = false);

// "1.23e-04", "0.0123" or "0": a probability in at most eight characters.
std::string FormatProbability(double probability);

}  // namespace headscope::analysis
