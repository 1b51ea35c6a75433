// The filter of the head table: words and comparisons, all of which a head must meet. Pure.
//
//   4:            heads of layer 4          sink            heads whose class holds "sink"
//   4:3           that head                 kurtosis>2      a metric by its name, with < <= > >=
#pragma once

#include <QString>
#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::ui {

class HeadFilter {
 public:
  // On a word that is not understood error() says which; the filter then lets every head pass.
  static HeadFilter Parse(const QString& text);
  const QString& error() const { return error_; }
  // `statistics` is null while the head's numbers are not known: comparisons and classes then fail.
  bool Accepts(analysis::HeadId head, const analysis::HeadStatistics* statistics) const;

 private:
  enum class Kind { kLayer, kHead, kClass, kLess, kLessOrEqual, kMore, kMoreOrEqual };
  struct Term {
    Kind kind = Kind::kClass;
    int layer = 0, head = 0;
    std::string text;  // metric or part of a class name
    double value = 0;
  };
  std::vector<Term> terms_;
  QString error_;
};

}  // namespace headscope::ui
