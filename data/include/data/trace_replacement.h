// SPDX-License-Identifier: Apache-2.0
// A new trace in the place of what has its name: which files may go, and how the new ones take their names, all of them
// or none (docs/trace_format.md, "Several files").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headscope::data {

// What stands under the names of the trace "DIR/out.h5": its files, and last that name itself.
std::vector<std::string> FilesUnderName(const std::string& path);

// The first of FilesUnderName that a trace of `num_files` files must not replace, and why. A file with a number goes
// where it says itself that it is this one of so many, and of the same trace as the others of so many. Nobody named it,
// so its name alone is not enough. The name itself was named: it goes whatever it is where the new trace is in one
// file, and else where it is a trace.
struct ForeignFile {
  std::string file, problem;
};
std::optional<ForeignFile> FindForeignFile(const std::string& path, int32_t num_files);

// DIR/NAME.MARK.EXT for the trace DIR/NAME.EXT of `num_files` files, or the first of DIR/NAME.MARK-2.EXT, ... under
// which nothing is. NAME is cut short, between two characters, where the whole, and the number of a file behind it,
// would be longer than a name may be. Throws FailedError where the folder cannot be looked into.
std::string FreeNameBeside(const std::string& path, const std::string& mark, int32_t num_files);

// The name that a trace has while another takes its place: "DIR/out.replaced.h5".
inline constexpr char kReplacedMark[] = "replaced";
// That of "DIR/out.h5" or of one of its files; empty where nothing has it.
std::string FindReplaced(const std::string& path);

// What came of it.
struct Replacement {
  std::string file = {};  // that failed; empty: all is as it should be
  int error = 0;          // of errno; EEXIST: somebody has put something there meanwhile
  bool stands = true;     // the new trace, under its name; only what was there before may not be gone
  std::string kept = {};  // the name of what was there before, where that could not be brought back
};
// Renames the files of a whole, closed trace from names for `from` to those for `to`, in one folder. Where one of them
// cannot be had, all keep the names that they had and what stood there stands. `replace`: FilesUnderName(to) go; else
// nothing may be there. A kill at any moment leaves what was there before whole, under its own names or as
// "DIR/out.replaced.h5", or FreeNameBeside of that mark. Throws FailedError as that does, before anything is renamed.
Replacement ReplaceTrace(const std::string& from, const std::string& to, int32_t num_files, bool replace);

// Renames in one step; 0, EEXIST where `to` is there, or another value of errno.
int RenameToFreeName(const std::string& from, const std::string& to);

}  // namespace headscope::data
