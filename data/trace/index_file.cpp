#include "data/index_file.h"

#include "data/trace_schema.h"
#include "trace/hdf5_values.h"
#include "trace/untrusted_file.h"
#include "trace/whole_file.h"

namespace headscope::data {
namespace {

constexpr char kFormat[] = "headscope-index";
constexpr int32_t kVersion = 1;
constexpr UntrustedFileKind kIndexKind{
    "an index file", "give a file that headscope bench --save-index wrote",
    "the file is damaged or was not written by headscope: write it again with headscope bench --save-index"};

// The integers of the root group, for both directions.
struct IntegerField {
  const char* name;
  int32_t IndexFile::*value;
};
constexpr IntegerField kIntegers[] = {
    {"batch", &IndexFile::batch},
    {"num_qo_heads", &IndexFile::num_qo_heads},
    {"num_kv_heads", &IndexFile::num_kv_heads},
    {"head_dim", &IndexFile::head_dim},
    {"seq_q", &IndexFile::seq_q},
    {"seq_k", &IndexFile::seq_k},
    {"first_position", &IndexFile::first_position},
    {"tile_rows", &IndexFile::tile_rows},
    {"mask_kind", &IndexFile::mask_kind},
    {"window", &IndexFile::window},
    {"num_sinks", &IndexFile::num_sinks},
};

void WriteNumbers(hid_t file, const std::string& name, hid_t file_type, hid_t memory_type,
                  const std::vector<hsize_t>& extents, const void* data) {
  const SpaceHandle space(
      Require(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), "creating a data space"));
  const PropertyHandle creation = WithoutTimes(H5P_DATASET_CREATE);
  const DatasetHandle dataset(
      Require(H5Dcreate2(file, name.c_str(), file_type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
              "creating dataset " + name));
  if (extents[0] > 0) {
    Require(H5Dwrite(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "writing dataset " + name);
  }
}

void WriteInt32(hid_t file, const std::string& name, const std::vector<int32_t>& values) {
  WriteNumbers(file, name, H5T_STD_I32LE, H5T_NATIVE_INT32, {values.size()}, values.data());
}

void WriteInt64(hid_t file, const std::string& name, const std::vector<int64_t>& values) {
  WriteNumbers(file, name, H5T_STD_I64LE, H5T_NATIVE_INT64, {values.size()}, values.data());
}

void WriteContents(hid_t file, const IndexFile& index) {
  CreateText(file, "format", kFormat);
  CreateInteger(file, "version", H5T_STD_I32LE, kVersion);
  CreateText(file, "method", index.method);
  CreateText(file, "recipe", index.recipe);
  CreateText(file, "dtype", index.dtype);
  CreateInteger(file, "seed", H5T_STD_I64LE, index.seed);
  for (const IntegerField& field : kIntegers) CreateInteger(file, field.name, H5T_STD_I32LE, index.*field.value);
  WriteInt64(file, "run_begin", index.run_begin);
  WriteInt32(file, "run_count", index.run_count);
  WriteInt64(file, "column_begin", index.column_begin);
  WriteInt32(file, "column_count", index.column_count);
  WriteNumbers(file, "runs", H5T_STD_I32LE, H5T_NATIVE_INT32, {index.runs.size() / 2, 2}, index.runs.data());
  WriteInt32(file, "columns", index.columns);
}

// Rows of `row_bytes` bytes, all of which are read into memory: a chunked dataset may declare more than the file holds.
void RequireStored(const UntrustedFile& file, const CheckedDataset& dataset, int64_t row_bytes) {
  if (dataset.extents[0] <= file.size() / row_bytes) return;
  file.Refuse(dataset.name, "declares " + std::to_string(dataset.extents[0]) + " entries in a file of " +
                                std::to_string(file.size()) + " bytes; " + kIndexKind.damaged);
}

template <typename Number>
std::vector<Number> ReadNumbers(const UntrustedFile& file, const GroupHandle& root, const std::string& name,
                                hid_t file_type, hid_t memory_type) {
  const CheckedDataset dataset = file.Dataset(root, "", name, file_type, 1, 0);
  RequireStored(file, dataset, sizeof(Number));
  std::vector<Number> values(static_cast<size_t>(dataset.extents[0]));
  file.ReadAll(dataset, memory_type, dataset.extents[0], values.data());
  return values;
}

std::vector<int32_t> ReadRuns(const UntrustedFile& file, const GroupHandle& root) {
  const CheckedDataset dataset = file.Dataset(root, "", "runs", H5T_STD_I32LE, 2, 0);
  if (dataset.extents[1] != 2) {
    file.Refuse(dataset.name,
                "has rows of " + std::to_string(dataset.extents[1]) + " numbers instead of 2; " + kIndexKind.damaged);
  }
  RequireStored(file, dataset, 2 * sizeof(int32_t));
  std::vector<int32_t> values(static_cast<size_t>(dataset.extents[0]) * 2);
  file.ReadAll(dataset, H5T_NATIVE_INT32, dataset.extents[0] * 2, values.data());
  return values;
}

}  // namespace

void WriteIndexFile(const std::string& path, const IndexFile& index) {
  const Hdf5Lock lock;
  const PropertyHandle access = InMemoryAccess(size_t{16} << 20);
  // The version of the format that UntrustedFile takes.
  Require(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "setting the format version");
  WriteWholeFile(path, access, [&](hid_t file) { WriteContents(file, index); });
}

IndexFile ReadIndexFile(const std::string& path) {
  const Hdf5Lock lock;
  const UntrustedFile file(path, kIndexKind);
  const GroupHandle root = file.Group("");
  if (const std::string format = file.Text(root, "format"); format != kFormat) {
    file.Refuse("attribute format", "is \"" + format + "\" instead of \"" + kFormat + "\"; " + kIndexKind.damaged);
  }
  if (const int32_t version = file.Integer32(root, "version"); version != kVersion) {
    file.Refuse("attribute version", "is " + std::to_string(version) + ", this headscope reads version " +
                                         std::to_string(kVersion) + "; " + kIndexKind.damaged);
  }
  IndexFile index;
  index.method = file.Text(root, "method");
  index.recipe = file.Text(root, "recipe");
  index.dtype = file.Text(root, "dtype");
  index.seed = file.Integer64(root, "seed");
  for (const IntegerField& field : kIntegers) index.*field.value = file.Integer32(root, field.name);
  index.run_begin = ReadNumbers<int64_t>(file, root, "run_begin", H5T_STD_I64LE, H5T_NATIVE_INT64);
  index.run_count = ReadNumbers<int32_t>(file, root, "run_count", H5T_STD_I32LE, H5T_NATIVE_INT32);
  index.column_begin = ReadNumbers<int64_t>(file, root, "column_begin", H5T_STD_I64LE, H5T_NATIVE_INT64);
  index.column_count = ReadNumbers<int32_t>(file, root, "column_count", H5T_STD_I32LE, H5T_NATIVE_INT32);
  index.runs = ReadRuns(file, root);
  index.columns = ReadNumbers<int32_t>(file, root, "columns", H5T_STD_I32LE, H5T_NATIVE_INT32);
  const size_t lists = index.run_begin.size();
  if (index.run_count.size() != lists || index.column_begin.size() != lists || index.column_count.size() != lists) {
    file.Refuse("/run_begin", "run_begin, run_count, column_begin and column_count differ in length; " +
                                  std::string(kIndexKind.damaged));
  }
  return index;
}

}  // namespace headscope::data
