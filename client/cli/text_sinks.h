// The outputs of `lion fill-mask` and `lion tokenize` for people.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "client/cli/output_file.h"
#include "client/cli/sinks.h"

namespace lion {

// Each input's text, after the name of its file and line, and below it a line per prediction; empty lines between.
// Inputs that failed are left out.
//
//   the [MASK] sleeps
//     2  cat  42.1 %  the cat sleeps
//     2  dog   7.7 %  the dog sleeps
//
// The first column is the mask's token position. The sentence is there where the text has a single mask.
std::unique_ptr<ResultSink> MakeFillMaskTable(std::unique_ptr<OutputFile> output);

//   the cats
//      101    -  [CLS]
//     1996  0-3  the
//     8870  4-8  cats
//
// The columns: id, bytes in the text (end exclusive), token; for pairs, after the bytes, which of the two texts.
std::unique_ptr<ResultSink> MakeTokenTable(std::unique_ptr<OutputFile> output);

// `text` around its only "[MASK]", with `token` in the mask's place: a "##" token is glued to what is before it. At
// most `columns` code points before and after, "…" where more are left out. Empty: there is no mask, or several.
std::string FillSentence(const std::string& text, const std::string& token, size_t columns);

}  // namespace lion
