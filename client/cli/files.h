// From the arguments of a command to the bytes of image files.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lion {

struct InputFile {
  std::string path;
  absl::Status status;  // not OK: an argument that led to no file
};

// In the order of the arguments:
//   a folder       all .jpg .jpeg .png .webp files (any case) below it, sorted by path, byte by byte
//   a pattern      with * ? [ ], where no file has that very name: what glob(7) matches, sorted likewise, and folders
//                  among the matches as above
//   "-"            the lines of `list`, each of them like an argument; empty lines are passed over
//   anything else  itself, whether it exists or not
// A folder without images, a pattern without matches and a list without lines are entries with a NOT_FOUND.
std::vector<InputFile> ExpandFiles(const std::vector<std::string>& arguments, std::istream& list);

// The whole of a regular file, or of one that a link leads to. An error says what the system said, and names no path.
// INVALID_ARGUMENT: longer than `max_bytes`; a folder, pipe or device, which are not waited for.
absl::StatusOr<std::string> ReadInputFile(const std::string& path, int64_t max_bytes);

}  // namespace lion
