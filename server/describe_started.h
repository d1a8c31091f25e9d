// What the log says of a model that was loaded.
#pragma once

#include <string>

#include "model_loader/model_loader.h"
#include "server/model_service.h"

namespace lion {

// Several lines: file, architecture and where each value of it comes from, device, limits, memory.
std::string DescribeStarted(const std::string& name, const LoadedModel& loaded, const ModelService& service);

}  // namespace lion
