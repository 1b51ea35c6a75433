// SPDX-License-Identifier: Apache-2.0
#include "data/results_file.h"

#include <set>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "data/trace_schema.h"
#include "trace/hdf5_values.h"
#include "trace/whole_file.h"

namespace headscope::data {
namespace {

size_t Length(const ResultsColumn& column) {
  return std::visit([](const auto& values) { return values.size(); }, column.values);
}

void Check(const std::string& path, const std::vector<ResultsColumn>& columns) {
  const auto fail = [&](const std::string& problem) { throw FailedError({.file = path, .problem = problem}); };
  if (columns.empty()) {
    fail("a table needs at least one column");
  }
  std::set<std::string> names;
  for (const ResultsColumn& column : columns) {
    if (column.name.empty() || column.name == "." || column.name.find('/') != std::string::npos ||
        column.name.find('\0') != std::string::npos) {
      fail("column name " + Quoted(column.name) + " cannot be used in HDF5: choose one without '/'");
    }
    if (!names.insert(column.name).second) {
      fail("column " + column.name + " appears twice: choose another name");
    }
    if (Length(column) != Length(columns.front())) {
      fail("column " + column.name + " has " + std::to_string(Length(column)) + " entries, " + columns.front().name +
           " has " + std::to_string(Length(columns.front())));
    }
  }
}

void WriteColumn(hid_t group, const ResultsColumn& column) {
  const hsize_t extent = Length(column);
  const SpaceHandle space(Require(H5Screate_simple(1, &extent, nullptr), "creating a data space"));
  TypeHandle type;
  PackedTexts texts;
  const void* data = nullptr;
  if (const auto* numbers = std::get_if<std::vector<double>>(&column.values)) {
    type = TypeHandle(Require(H5Tcopy(H5T_IEEE_F64LE), "copying a type"));
    data = numbers->data();
  } else {
    texts = PackTexts(std::get<std::vector<std::string>>(column.values));
    type = TextType(texts.width);
    data = texts.bytes.data();
  }
  const PropertyHandle creation = WithoutTimes(H5P_DATASET_CREATE);
  const DatasetHandle dataset(
      Require(H5Dcreate2(group, column.name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
              "creating column " + column.name));
  Require(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "writing column " + column.name);
  if (!column.unit.empty()) {
    CreateText(dataset.get(), "units", column.unit);
  }
}

void WriteTable(hid_t file, const std::vector<ResultsColumn>& columns,
                const std::vector<std::pair<std::string, std::string>>& attributes) {
  CreateText(file, "format", "headscope-results");
  CreateInteger(file, "version", H5T_STD_I32LE, 1);
  const PropertyHandle creation = WithoutTimes(H5P_GROUP_CREATE);
  const GroupHandle group(
      Require(H5Gcreate2(file, "results", H5P_DEFAULT, creation.get(), H5P_DEFAULT), "creating group results"));
  std::vector<std::string> names;
  for (const ResultsColumn& column : columns) {
    WriteColumn(group.get(), column);
    names.push_back(column.name);
  }
  CreateTexts(group.get(), "columns", names);
  for (const auto& [name, text] : attributes) {
    CreateText(group.get(), name, text);
  }
}

}  // namespace

void WriteResults(const std::string& path, const std::vector<ResultsColumn>& columns,
                  const std::vector<std::pair<std::string, std::string>>& attributes) {
  Check(path, columns);
  const Hdf5Lock lock;
  WriteWholeFile(path, InMemoryAccess(size_t{1} << 20), [&](hid_t file) { WriteTable(file, columns, attributes); });
}

}  // namespace headscope::data
