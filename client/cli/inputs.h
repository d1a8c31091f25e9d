// What a command sends: image files, texts of the command line and lines of text files, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/files.h"
#include "client/cli/line_reader.h"
#include "lion/v1/lion.pb.h"

namespace lion {

struct BulkInput {
  std::string source;   // an image's path, a text file's ("stdin": standard input), or "--text"
  int64_t number = 0;   // of the line, or of the --text, from 1; 0: an image, or a text file that gave no line
  size_t index = 0;     // among all inputs of the run, from 0
  absl::Status status;  // not OK: there is nothing to send
  v1::Input value;      // a text or pair; not set: an image, which is read from `source` when it is sent

  bool is_text() const { return number > 0; }
  bool from_file() const;  // a text that is a line
};

// For messages: "7.png", "lines.txt:3", "--text 2". Not yet printable.
std::string NameOf(const BulkInput& input);

// The text, or both of a pair with " / " between them; empty for an image.
std::string TextOf(const BulkInput& input);

struct InputLists {
  std::vector<InputFile> images;
  std::vector<std::string> texts;
  std::vector<std::string> text_files;  // a text per line; "-": standard input
  bool pairs = false;                   // each text is two, with a tab between them
  bool skip_empty = false;              // lines without anything but white space are no inputs
};

// All images, then all texts, then the lines of all text files, which are read when they are asked for: a file may be
// larger than memory, and a pipe need not end. What cannot be sent (a text that is not UTF-8, a file that cannot be
// read) is an input with an error. Not thread-safe.
class InputSource {
 public:
  explicit InputSource(InputLists lists);

  // Nothing: there is none left.
  std::optional<BulkInput> Next();
  // True while Next would wait for another program to write a line.
  bool MustWait() const { return reader_ != nullptr && reader_->MustWait(); }
  // From now on Next gives only what is known without reading on. Returns whether anything is left unread.
  bool StopReading();

  std::optional<size_t> total() const;  // nothing: text files have to be read to know
  size_t skipped() const { return skipped_; }

 private:
  BulkInput TextInput(const std::string& source, int64_t number, std::string text) const;
  std::optional<BulkInput> NextLine();

  const InputLists lists_;
  size_t next_image_ = 0, next_text_ = 0, next_file_ = 0;
  std::unique_ptr<LineReader> reader_;  // of the file before `next_file_`; null: that is done with
  int64_t line_ = 0;                    // the number of its last one
  int64_t inputs_of_file_ = 0;
  size_t given_ = 0;
  size_t skipped_ = 0;
};

}  // namespace lion
