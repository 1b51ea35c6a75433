// SPDX-License-Identifier: Apache-2.0
// One process at a time writes to a path.
//
// A capture makes its file only after the model is loaded, so two that start together would both find the name free; a
// tuning that can be resumed adds to its file, and two would add to the same one.
// The claim is a socket of the local system whose name says folder and file: it needs no file, and it ends with its
// process, whatever ends that.
#pragma once

#include <string>

namespace headscope {

class OutputClaim {
 public:
  // what: "capture", "tuning". Throws UsageError, which names the process, when such work of this user to that path is
  // running. Where such a socket cannot be had nothing is claimed, and the file's own name decides.
  OutputClaim(const std::string& path, const std::string& what);
  ~OutputClaim();
  OutputClaim(const OutputClaim&) = delete;
  OutputClaim& operator=(const OutputClaim&) = delete;

 private:
  int socket_ = -1;
};

}  // namespace headscope
