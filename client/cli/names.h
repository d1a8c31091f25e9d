// Enum values of the API as a person types and reads them.
#pragma once

#include <map>
#include <string>

#include "lion/v1/lion.pb.h"

namespace lion {

// What --pooling, --truncation and --resize take, by name.
const std::map<std::string, v1::Pooling>& Poolings();
const std::map<std::string, v1::Truncation>& Truncations();
const std::map<std::string, v1::ImageOptions::Resize>& Resizes();

// Empty for an unspecified value, the number for one that this program does not know.
std::string PoolingText(v1::Pooling pooling);
std::string ResizeText(v1::ImageOptions::Resize resize);
std::string ModalityText(v1::Model::Modality modality);

}  // namespace lion
