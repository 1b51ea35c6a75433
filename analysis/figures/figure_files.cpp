// SPDX-License-Identifier: Apache-2.0
// Figures as JSON and CSV.
#include <nlohmann/json.hpp>

#include "analysis/csv_text.h"
#include "analysis/figures.h"
#include "analysis/types/printable.h"
#include "data/origin_json.h"

namespace headscope::analysis {
namespace {

using Json = nlohmann::ordered_json;

const char* KindName(FigureKind kind) {
  switch (kind) {
    case FigureKind::kLines:
      return "lines";
    case FigureKind::kPoints:
      return "points";
    case FigureKind::kBars:
      return "bars";
    case FigureKind::kStack:
      return "stack";
    case FigureKind::kHeat:
      break;
  }
  return "heat";
}

}  // namespace

std::string FigureJson(const Figure& figure, const OriginTexts& origin) {
  Json json = {{"schema", "headscope-figure-1"},
               {"figure", figure.name},
               {"title", figure.title},
               {"source", figure.source},
               {"caption", figure.caption}};
  if (!origin.empty()) json["origin"] = data::OriginJson(origin);
  json["panels"] = Json::array();
  for (const FigurePanel& panel : figure.panels) {
    Json entry = {{"title", panel.title}, {"kind", KindName(panel.kind)}, {"x", panel.x.title}, {"y", panel.y.title}};
    if (panel.kind == FigureKind::kHeat) entry["value"] = panel.value.title;
    if (!panel.categories.empty()) entry["categories"] = panel.categories;
    entry["series"] = Json::array();
    for (const FigureSeries& series : panel.series) {
      Json one = {{"name", series.name}};
      if (!series.x.empty()) one["x"] = series.x;
      one["y"] = series.y;
      entry["series"].push_back(std::move(one));
    }
    json["panels"].push_back(std::move(entry));
  }
  return PrintableJson(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)) + "\n";
}

std::string FigureCsv(const Figure& figure, const CsvOrigin& origin) {
  std::string csv = "panel,series,x,y" + origin.names + "\n";
  for (const FigurePanel& panel : figure.panels) {
    for (const FigureSeries& series : panel.series) {
      for (size_t i = 0; i < series.y.size(); ++i) {
        const std::string x = series.x.empty() ? CsvText(panel.categories[i]) : CsvText(series.x[i]);
        csv += CsvText(panel.title) + "," + CsvText(series.name) + "," + x + "," + CsvText(series.y[i]) + origin.cells +
               "\n";
      }
    }
  }
  return csv;
}

}  // namespace headscope::analysis
