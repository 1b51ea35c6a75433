// SPDX-License-Identifier: Apache-2.0
// The filter of the head table: words and comparisons, all of which a head must meet. Pure.
//
//   4:            heads of layer 4          sink            heads whose class holds "sink"; class=sink as well
//   4:3           that head                 kurtosis>2      layer, head or a metric by its name, with < <= > >= =
//   4:3,5:,7:1    any of these
//   #todo         heads with a tag that holds "todo"
//   like=4:3      heads whose pattern is like that head's (similar_heads.h)
//
// `=` holds when the number, rounded to the digits typed, is the one typed: sink_mass=0.75 from 0.745 to 0.755.
#pragma once

#include <QString>
#include <QStringList>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::ui {

class HeadFilter {
 public:
  // On a word that is not understood error() says which; the filter then lets every head pass.
  static HeadFilter Parse(const QString& text);
  const QString& error() const { return error_; }
  // The word that only these heads meet.
  static QString WordOf(const std::vector<analysis::HeadId>& heads);
  // `statistics` is null while the head's numbers are not known: comparisons of metrics and classes then fail.
  // `find`: the numbers of any other head, or null; without it no head is like another.
  using Find = std::function<const analysis::HeadStatistics*(analysis::HeadId)>;
  bool Accepts(analysis::HeadId head, const analysis::HeadStatistics* statistics, const QStringList& tags = {},
               const Find& find = {}) const;

 private:
  enum class Kind { kHeads, kClass, kTag, kLike, kComparison };
  struct Term {
    Kind kind = Kind::kClass;
    struct Place {
      int layer = 0;
      std::optional<int> head;  // nothing: all of the layer
    };
    std::vector<Place> heads;  // of kHeads: any of them; of kLike: one
    std::string text;          // name of a number, or part of a class name or a tag
    bool whole = false;        // the text is the whole name of a class
    QString sign;              // of a comparison
    double value = 0;
    double half_digit = 0;  // half a unit of the last digit that was typed
  };
  // One word; on failure `error` is set.
  static Term ParseWord(const QString& word, QString* error);
  static bool Accepts(const Term& term, analysis::HeadId head, const analysis::HeadStatistics* statistics,
                      const QStringList& tags, const Find& find);

  std::vector<Term> terms_;
  QString error_;
};

}  // namespace headscope::ui
