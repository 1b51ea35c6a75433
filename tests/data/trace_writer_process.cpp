// SPDX-License-Identifier: Apache-2.0
// Writes a synthetic trace in a process of its own, to be killed or to run out of space. After each flush it prints the
// number of flushed tokens on one line, so that whoever kills it knows the least that must be readable.
//
//   data_trace_writer_process PATH VARIANT [--file-limit BYTES] [--small-disk BYTES] | --files N [--small-disk BYTES]
//
// VARIANT chooses encoding, sizes and rhythm (synthetic_trace.h). --file-limit makes writes beyond BYTES fail as on a
// full disk. --small-disk mounts a file system of BYTES over PATH's folder, visible to this process alone; exit code 77
// when that is not permitted. With either, the trace is read back in this very process after the failure, and the last
// line tells the outcome. --files spreads the trace over so many files, which are flushed one after the other, so that
// a kill finds them with different counts. With --small-disk, 16 layers in N files begin their chunks, and are flushed
// once all have.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/trace_files_writer.h"
#include "synthetic_trace.h"

namespace {

using headscope::FailedError;
using headscope::data::TraceFilesWriter;
using headscope::data::TraceLayout;
using headscope::data::TraceReader;
using headscope::data::TraceStorage;
using headscope::data::TraceWriter;
using headscope::data::testing::AppendPass;
using headscope::data::testing::FirstDifference;
using headscope::data::testing::StressVariant;
using headscope::data::testing::Variant;

constexpr int kNotPermitted = 77;
constexpr int64_t kFirstPassOfSecondChunk = 9;  // of variants 3 and 11: passes of 128 tokens, chunks of 1024
constexpr int64_t kEndless = int64_t{1} << 20;

bool MountSmallDisk(const std::string& folder, const std::string& bytes) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return false;
  }
  mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return mount("tmpfs", folder.c_str(), "tmpfs", 0, ("size=" + bytes).c_str()) == 0;
}

// Takes every free byte of the file system, so that the next flush has nowhere to go.
void FillDisk(const std::string& folder) {
  std::ofstream filler(folder + "/filler");
  const std::string block(4096, 'x');
  while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
  }
}

int WriteUntilItFails(const std::string& path, const StressVariant& variant, bool expect_failure, bool fill_disk) {
  TraceWriter writer(path, variant.layout, true, 0, TraceStorage::kPlain, variant.open_chunk_bytes);
  int64_t flushed = 0, passes = 0;
  try {
    for (int64_t begin = 0; begin < kEndless; begin += variant.pass) {
      AppendPass(writer, variant.layout, begin, begin + variant.pass, variant.num_prompt);
      if (++passes % variant.flush_every == 0) {
        // The disk fills up while new chunks have no place in the file yet: whoever hands them over finds out, the
        // flush or, where HDF5's cache is full, the next block.
        if (fill_disk && passes == kFirstPassOfSecondChunk) {
          FillDisk(std::filesystem::path(path).parent_path().string());
        }
        writer.Flush();
        flushed = begin + variant.pass;
        std::printf("%lld\n", static_cast<long long>(flushed));
        std::fflush(stdout);
      }
    }
  } catch (const FailedError& error) {
    if (!expect_failure) {
      std::printf("unexpected: %s\n", error.what());
      return 1;
    }
    const TraceReader reader(path);
    const std::string difference = FirstDifference(reader, variant.num_prompt);
    std::printf("stopped|%s|%lld|%lld|%s\n", error.what(), static_cast<long long>(flushed),
                static_cast<long long>(reader.num_tokens()), difference.c_str());
    return 0;
  }
  std::printf("never stopped\n");
  return 1;
}

int WriteFiles(const std::string& path, const StressVariant& variant, int32_t num_files) {
  TraceFilesWriter writer(path, variant.layout, num_files, /*overwrite=*/true);
  const std::vector<TraceLayout> layouts =
      headscope::data::LayoutsOfFiles(variant.layout, headscope::data::DealLayers(variant.layout, num_files, 0));
  int64_t passes = 0;
  for (int64_t begin = 0; begin < kEndless; begin += variant.pass) {
    const bool flush = ++passes % variant.flush_every == 0;
    for (int32_t file = 0; file < num_files; ++file) {
      AppendPass(writer.file(file), layouts[static_cast<size_t>(file)], begin, begin + variant.pass,
                 variant.num_prompt);
      if (flush) writer.file(file).Flush();
    }
    if (!flush) continue;
    std::printf("%lld\n", static_cast<long long>(begin + variant.pass));
    std::fflush(stdout);
  }
  std::printf("never stopped\n");
  return 1;
}

// Every file has room by itself for what it begins.
int FillDiskByFiles(const std::string& path, const StressVariant& variant, int32_t num_files) {
  constexpr int32_t kLayers = 16;
  TraceLayout layout = variant.layout;
  layout.model.num_layers = kLayers;
  layout.facts.assign(kLayers, variant.layout.facts[0]);
  layout.layers.clear();
  for (int32_t layer = 0; layer < kLayers; ++layer) layout.layers.push_back(layer);
  TraceFilesWriter writer(path, layout, num_files, /*overwrite=*/true);
  const std::vector<TraceLayout> layouts =
      headscope::data::LayoutsOfFiles(layout, headscope::data::DealLayers(layout, num_files, 0));
  try {
    for (int32_t file = 0; file < num_files; ++file)
      AppendPass(writer.file(file), layouts[static_cast<size_t>(file)], 0, variant.pass, variant.num_prompt);
    writer.Finish();
  } catch (const FailedError& error) {
    const TraceReader reader(path);
    const std::string difference = FirstDifference(reader, variant.num_prompt);
    std::printf("stopped|%s|0|%lld|%s\n", error.what(), static_cast<long long>(reader.num_tokens()),
                difference.c_str());
    return 0;
  }
  std::printf("never stopped\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool fill = argc == 6 && std::strcmp(argv[5], "--fill") == 0;
  const bool small_files = argc == 7 && std::strcmp(argv[5], "--small-disk") == 0;
  if (argc != 3 && argc != 5 && !fill && !small_files) {
    std::fprintf(stderr,
                 "usage: data_trace_writer_process PATH VARIANT [--files N [--small-disk BYTES] | --file-limit BYTES | "
                 "--small-disk BYTES [--fill]]\n");
    return 2;
  }
  const std::string path = argv[1], option = argc >= 5 ? argv[3] : "";
  const StressVariant variant = Variant(std::atoi(argv[2]));
  if (small_files) {
    if (!MountSmallDisk(std::filesystem::path(path).parent_path().string(), argv[6])) return kNotPermitted;
    return FillDiskByFiles(path, variant, std::atoi(argv[4]));
  }
  if (option == "--files") return WriteFiles(path, variant, std::atoi(argv[4]));
  if (option == "--file-limit") {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlim_t limit = std::strtoull(argv[4], nullptr, 10);
    const rlimit both{limit, limit};
    setrlimit(RLIMIT_FSIZE, &both);
  } else if (option == "--small-disk" && !MountSmallDisk(std::filesystem::path(path).parent_path().string(), argv[4])) {
    return kNotPermitted;
  }
  return WriteUntilItFails(path, variant, !option.empty(), fill);
}
