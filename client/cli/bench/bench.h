// `lion bench`: loads a server and says how it bore it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "client/cli/commands.h"

namespace lion::bench {

enum class CallKind : uint8_t { kEmbed, kClassify };
enum class ImageFormat : uint8_t { kPixels, kPng, kJpeg };

// What --call and --format take, by name.
const std::map<std::string, CallKind>& CallKinds();
const std::map<std::string, ImageFormat>& ImageFormats();
std::string CallKindName(CallKind kind);
std::string ImageFormatName(ImageFormat format);

struct BenchFlags {
  ServerFlags server{.timeout_ms = 60'000};
  std::string model;  // may be empty when the server has one model

  // Either an open loop (rate > 0) or a closed one (concurrency > 0).
  double rate = 0;  // calls per second
  bool poisson = true;
  int64_t max_in_flight = 1000;
  int64_t concurrency = 0;

  double duration_s = 10;
  int64_t requests = 0;  // above 0: the run ends after so many, whatever the duration
  double warm_up_s = 1;
  int connections = 1;

  CallKind call = CallKind::kEmbed;
  std::string sizes;  // as ParseSizeMix takes it; empty: the size the model was trained at
  int inputs_per_call = 1;
  ImageFormat format = ImageFormat::kPixels;
  v1::ImageOptions::Resize resize = v1::ImageOptions::RESIZE_NONE;  // of encoded images
  uint32_t priority = 0;
  uint64_t seed = 1;

  std::string json;  // a path; "-": standard output, in place of the text; empty: none
};

// Exit status 0: at least one counted call succeeded, and the report was written.
int RunBench(const BenchFlags& flags);

}  // namespace lion::bench
