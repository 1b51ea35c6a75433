// SPDX-License-Identifier: Apache-2.0
#include "trace/whole_file.h"

#include <filesystem>
#include <system_error>

#include "base/errors.h"
#include "data/trace_schema.h"
#include "trace/hdf5_values.h"

namespace headscope::data {

PropertyHandle InMemoryAccess(size_t increment) {
  PropertyHandle access(Require(H5Pcreate(H5P_FILE_ACCESS), "creating properties"));
  Require(H5Pset_fapl_core(access.get(), increment, true), "choosing the file driver");
  return access;
}

void WriteWholeFile(const std::string& path, const PropertyHandle& access, const std::function<void(hid_t)>& write) {
  const PropertyHandle creation = WithoutTimes(H5P_FILE_CREATE);
  FileHandle file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()));
  if (!file.valid()) {
    throw FailedError({.file = path,
                       .problem = "cannot be created (" + Hdf5Reason() + ")",
                       .remedy = "choose a new name in a writable folder"});
  }
  const auto give_up = [&] {
    file.Release();  // closing would try to write again
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  };
  try {
    write(file.get());
    Require(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "writing");
    if (file.Reset() < 0) throw FailedError("writing failed: " + Hdf5Reason());
  } catch (Error& error) {
    give_up();
    if (error.fault().file.empty()) error.SetFile(path);
    if (error.kind() == ErrorKind::kFailed && error.fault().remedy.empty())
      error.AddRemedy("free some disk space or choose another folder");
    throw;
  } catch (...) {
    give_up();
    throw;
  }
}

}  // namespace headscope::data
