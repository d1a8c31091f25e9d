// How a vision model wants its images, from config.json and checkpoint arguments. Private to model_loader.
#pragma once

#include "model_loader/model_config.h"
#include "model_loader/settings.h"

namespace lion {

// Fills config.image. The size falls back to the position grid's, then to 224. Needs patch_size and position_grid.
void SettleImage(Source& config_file, Source& arguments, ModelConfig& config, Findings& findings);

}  // namespace lion
