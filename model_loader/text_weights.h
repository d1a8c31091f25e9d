// The text encoder's tensor names and shapes. Private to model_loader.
#pragma once

#include <string>

#include "model_loader/checkpoint.h"
#include "model_loader/parameter_reader.h"
#include "model_loader/weights.h"

namespace lion {

struct TextNames {
  std::string encoder;     // "bert.", or empty where names come without it
  bool masked_lm = false;  // whether there is any cls.predictions tensor
};
TextNames TextNamesOf(const Checkpoint& checkpoint);

// Everything that `config` promises; what is missing or misshapen is the reader's to report.
TextWeights TakeTextWeights(const ModelConfig& config, const TextNames& names, const Checkpoint& checkpoint,
                            ParameterReader& reader);

}  // namespace lion
