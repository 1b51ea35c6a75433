// SPDX-License-Identifier: Apache-2.0
#include "data/index_file.h"

#include "base/quoted_text.h"
#include "data/trace_schema.h"
#include "trace/hdf5_values.h"
#include "trace/untrusted_file.h"
#include "trace/whole_file.h"

namespace headscope::data {
namespace {

constexpr char kFormat[] = "headscope-index";
constexpr int32_t kOneLayer = 1, kOfTrace = 2;  // versions
constexpr UntrustedFileKind kIndexKind{"an index file", "give an index file that headscope wrote",
                                       "the file is damaged or was not written by headscope: save the index again",
                                       Help::kSaveIndex};

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
  CreateInteger(file, "version", H5T_STD_I32LE, index.heads.empty() ? kOneLayer : kOfTrace);
  CreateText(file, "method", index.method);
  CreateText(file, "recipe", index.recipe);
  CreateText(file, "dtype", std::string(NameOf(index.dtype)));
  CreateInteger(file, "seed", H5T_STD_I64LE, index.seed);
  for (const IntegerField& field : kIntegers) CreateInteger(file, field.name, H5T_STD_I32LE, index.*field.value);
  WriteInt64(file, "run_begin", index.run_begin);
  WriteInt32(file, "run_count", index.run_count);
  WriteInt64(file, "column_begin", index.column_begin);
  WriteInt32(file, "column_count", index.column_count);
  WriteNumbers(file, "runs", H5T_STD_I32LE, H5T_NATIVE_INT32, {index.runs.size() / 2, 2}, index.runs.data());
  WriteInt32(file, "columns", index.columns);
  if (!index.heads.empty())
    WriteNumbers(file, "heads", H5T_STD_I32LE, H5T_NATIVE_INT32, {index.heads.size() / 2, 2}, index.heads.data());
}

// Q, K, V and the output of the problem over the bytes of its index: 128 rows of 256 numbers of 4 bytes, each with keys
// and values of its own, and a list of one run.
constexpr int64_t kMostPerStoredByte = 16384;

// A dataset that is read whole; the rows of all extents behind the first lie one after the other.
CheckedDataset Whole(UntrustedFile& file, const StoredGroup& root, const char* name, StoredKind type, int rank) {
  CheckedDataset dataset = file.Dataset(root, name, type, rank, 0);
  if (rank == 2 && dataset.extents[1] != 2) {
    file.Refuse(dataset.name, "has rows of " + std::to_string(dataset.extents[1]) + " numbers instead of 2");
  }
  if (dataset.num_items > file.size() / dataset.item_bytes) {
    file.Refuse(dataset.name, "declares " + std::to_string(dataset.num_items) + " entries in a file of " +
                                  std::to_string(file.size()) + " bytes");
  }
  return dataset;
}

template <typename Number>
std::vector<Number> ReadNumbers(UntrustedFile& file, CheckedDataset& dataset) {
  file.RequireStored(dataset, dataset.num_items, StoredLayout::kContiguous);
  std::vector<Number> values(static_cast<size_t>(dataset.num_items * dataset.item_bytes) / sizeof(Number));
  file.Read(dataset, 0, 0, dataset.num_items, 0, values.data());
  return values;
}

// The file says which problem it is of, and whoever times it makes that problem.
void RequireProportion(const UntrustedFile& file, const IndexFile& index) {
  if (index.batch <= 0 || index.num_qo_heads <= 0 || index.num_kv_heads <= 0 || index.head_dim <= 0 ||
      index.seq_q <= 0 || index.seq_k <= 0) {
    return;  // whoever uses the numbers says what is wrong with them
  }
  // Floating point, because a product of hostile numbers overflows any integer.
  const double vectors =
      2.0 * index.batch * (double{1} * index.num_qo_heads * index.seq_q + double{1} * index.num_kv_heads * index.seq_k);
  const double bytes = vectors * index.head_dim * static_cast<double>(SizeOf(index.dtype));
  if (bytes > static_cast<double>(kMostPerStoredByte) * static_cast<double>(file.stored_size())) {
    file.Refuse("attribute seq_q", "is " + std::to_string(index.seq_q) +
                                       ", and Q, K, V and the output of that problem take more than " +
                                       std::to_string(kMostPerStoredByte) + " times the " +
                                       std::to_string(file.stored_size()) + " bytes of its index");
  }
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
  UntrustedFile file(path, kIndexKind);
  const StoredGroup& root = file.Group("");
  if (const std::string format = file.Text(root, "format"); format != kFormat) {
    file.Refuse("attribute format", "is " + Quoted(format) + " instead of " + Quoted(kFormat));
  }
  const int32_t version = file.Integer32(root, "version");
  if (version != kOneLayer && version != kOfTrace) {
    file.Refuse("attribute version", "is " + std::to_string(version) + ", this headscope reads versions " +
                                         std::to_string(kOneLayer) + " and " + std::to_string(kOfTrace));
  }
  IndexFile index;
  index.method = file.Text(root, "method");
  index.recipe = file.Text(root, "recipe");
  const std::string dtype = file.Text(root, "dtype");
  const std::optional<ElementType> type = FindElementType(dtype);
  if (!type) {
    file.Refuse("attribute dtype", "is " + Quoted(dtype) + ", allowed are fp32, bf16 and fp16");
  }
  index.dtype = *type;
  index.seed = file.Integer64(root, "seed");
  for (const IntegerField& field : kIntegers) index.*field.value = file.Integer32(root, field.name);
  if (version == kOneLayer) RequireProportion(file, index);  // nobody makes a problem of a trace's index
  CheckedDataset run_begin = Whole(file, root, "run_begin", StoredKind::kInt64, 1);
  CheckedDataset run_count = Whole(file, root, "run_count", StoredKind::kInt32, 1);
  CheckedDataset column_begin = Whole(file, root, "column_begin", StoredKind::kInt64, 1);
  CheckedDataset column_count = Whole(file, root, "column_count", StoredKind::kInt32, 1);
  CheckedDataset runs = Whole(file, root, "runs", StoredKind::kInt32, 2);
  CheckedDataset columns = Whole(file, root, "columns", StoredKind::kInt32, 1);
  const int64_t lists = run_begin.num_items;
  if (run_count.num_items != lists || column_begin.num_items != lists || column_count.num_items != lists) {
    file.Refuse("/run_begin", "run_begin, run_count, column_begin and column_count differ in length");
  }
  index.run_begin = ReadNumbers<int64_t>(file, run_begin);
  index.run_count = ReadNumbers<int32_t>(file, run_count);
  index.column_begin = ReadNumbers<int64_t>(file, column_begin);
  index.column_count = ReadNumbers<int32_t>(file, column_count);
  index.runs = ReadNumbers<int32_t>(file, runs);
  index.columns = ReadNumbers<int32_t>(file, columns);
  if (version == kOfTrace) {
    CheckedDataset heads = Whole(file, root, "heads", StoredKind::kInt32, 2);
    if (heads.extents[0] == 0 || heads.extents[0] != index.num_qo_heads || index.batch != 1) {
      file.Refuse("/heads", "has " + std::to_string(heads.extents[0]) + " heads, num_qo_heads is " +
                                std::to_string(index.num_qo_heads) + " and batch " + std::to_string(index.batch) +
                                ", which must be 1");
    }
    index.heads = ReadNumbers<int32_t>(file, heads);
  }
  return index;
}

}  // namespace headscope::data
