#include "server/image/webp_lossless.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lion {
namespace {

// What stands before the pixels is read, and no more: transforms, and the picture of the groups' numbers.

// Past its end it reads zeros.
class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : bytes_(bytes) {}

  uint32_t Read(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      if (at_ / 8 >= bytes_.size()) continue;
      value |= (static_cast<uint32_t>(static_cast<uint8_t>(bytes_[at_ / 8])) >> (at_ % 8) & 1) << i;
    }
    return value;
  }
  bool past_end() const { return at_ > 8 * bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t at_ = 0;  // in bits
};

constexpr int kMaxLength = 15;

// A canonical prefix code.
class PrefixCode {
 public:
  // False: the lengths are those of no complete code.
  bool Build(const std::vector<uint8_t>& lengths) {
    counts_.fill(0);
    symbols_.clear();
    for (const uint8_t length : lengths) ++counts_[length];
    counts_[0] = 0;
    int64_t open = 1;
    for (int length = 1; length <= kMaxLength; ++length) {
      for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
        if (lengths[symbol] == length) symbols_.push_back(static_cast<uint16_t>(symbol));
      }
      open = 2 * open - counts_[length];
      if (open < 0) return false;
    }
    return symbols_.size() == 1 || (open == 0 && !symbols_.empty());
  }

  uint32_t Read(BitReader& bits) const {
    if (symbols_.size() == 1) return symbols_[0];  // takes no bit
    int64_t code = 0, first = 0, index = 0;
    for (int length = 1; length <= kMaxLength; ++length) {
      code |= bits.Read(1);
      const int64_t count = counts_[length];
      if (code - first < count) return symbols_[static_cast<size_t>(index + code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    return symbols_[0];  // not reached: the code is complete
  }

 private:
  std::array<int64_t, kMaxLength + 1> counts_ = {};
  std::vector<uint16_t> symbols_;  // by length, then by value
};

constexpr uint32_t kLiterals = 256;
constexpr uint32_t kLengthCodes = 24;
constexpr uint32_t kDistanceCodes = 40;

// One or two symbols. Those that the alphabet does not have are passed over, as libwebp does.
void ReadSimpleCode(BitReader& bits, std::vector<uint8_t>& lengths) {
  const bool two = bits.Read(1) != 0;
  const uint32_t first = bits.Read(bits.Read(1) != 0 ? 8 : 1);
  if (first < lengths.size()) lengths[first] = 1;
  if (!two) return;
  const uint32_t second = bits.Read(8);
  if (second < lengths.size()) lengths[second] = 1;
}

bool ReadNormalCode(BitReader& bits, std::vector<uint8_t>& lengths) {
  static constexpr std::array<uint8_t, 19> kOrder = {17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  std::vector<uint8_t> code_lengths(kOrder.size());
  const uint32_t given = bits.Read(4) + 4;
  for (uint32_t i = 0; i < given; ++i) code_lengths[kOrder[i]] = static_cast<uint8_t>(bits.Read(3));
  PrefixCode code;
  if (!code.Build(code_lengths)) return false;
  size_t left = lengths.size();
  if (bits.Read(1) != 0) {
    left = 2 + bits.Read(static_cast<int>(2 + 2 * bits.Read(3)));
    if (left > lengths.size()) return false;
  }
  uint8_t previous = 8;
  for (size_t symbol = 0; symbol < lengths.size() && left > 0; --left) {
    const uint32_t read = code.Read(bits);
    if (read < 16) {
      lengths[symbol++] = static_cast<uint8_t>(read);
      if (read != 0) previous = static_cast<uint8_t>(read);
      continue;
    }
    const uint32_t repeat = read == 16 ? 3 + bits.Read(2) : read == 17 ? 3 + bits.Read(3) : 11 + bits.Read(7);
    if (repeat > lengths.size() - symbol) return false;
    std::fill_n(lengths.begin() + static_cast<int64_t>(symbol), repeat, read == 16 ? previous : uint8_t{0});
    symbol += repeat;
  }
  return true;
}

std::optional<PrefixCode> ReadCode(BitReader& bits, uint32_t symbols) {
  std::vector<uint8_t> lengths(symbols);
  if (bits.Read(1) != 0) {
    ReadSimpleCode(bits, lengths);
  } else if (!ReadNormalCode(bits, lengths)) {
    return std::nullopt;
  }
  PrefixCode code;
  if (!code.Build(lengths)) return std::nullopt;
  return code;
}

// A length or distance from its prefix symbol.
uint32_t ReadReach(BitReader& bits, uint32_t symbol) {
  if (symbol < 4) return symbol + 1;
  const int extra = static_cast<int>(symbol - 2) >> 1;
  return ((2 + (symbol & 1)) << extra) + bits.Read(extra) + 1;
}

// How far back in the scan a distance code reaches: small ones name neighbours in the plane.
int64_t Distance(uint32_t code, int64_t width) {
  static constexpr std::array<std::array<int8_t, 2>, 120> kNeighbours = {{
      {0, 1},  {1, 0},  {1, 1},  {-1, 1}, {0, 2},  {2, 0},  {1, 2},  {-1, 2}, {2, 1},  {-2, 1}, {2, 2}, {-2, 2},
      {0, 3},  {3, 0},  {1, 3},  {-1, 3}, {3, 1},  {-3, 1}, {2, 3},  {-2, 3}, {3, 2},  {-3, 2}, {0, 4}, {4, 0},
      {1, 4},  {-1, 4}, {4, 1},  {-4, 1}, {3, 3},  {-3, 3}, {2, 4},  {-2, 4}, {4, 2},  {-4, 2}, {0, 5}, {3, 4},
      {-3, 4}, {4, 3},  {-4, 3}, {5, 0},  {1, 5},  {-1, 5}, {5, 1},  {-5, 1}, {2, 5},  {-2, 5}, {5, 2}, {-5, 2},
      {4, 4},  {-4, 4}, {3, 5},  {-3, 5}, {5, 3},  {-5, 3}, {0, 6},  {6, 0},  {1, 6},  {-1, 6}, {6, 1}, {-6, 1},
      {2, 6},  {-2, 6}, {6, 2},  {-6, 2}, {4, 5},  {-4, 5}, {5, 4},  {-5, 4}, {3, 6},  {-3, 6}, {6, 3}, {-6, 3},
      {0, 7},  {7, 0},  {1, 7},  {-1, 7}, {5, 5},  {-5, 5}, {7, 1},  {-7, 1}, {4, 6},  {-4, 6}, {6, 4}, {-6, 4},
      {2, 7},  {-2, 7}, {7, 2},  {-7, 2}, {3, 7},  {-3, 7}, {7, 3},  {-7, 3}, {5, 6},  {-5, 6}, {6, 5}, {-6, 5},
      {8, 0},  {4, 7},  {-4, 7}, {7, 4},  {-7, 4}, {8, 1},  {8, 2},  {6, 6},  {-6, 6}, {8, 3},  {5, 7}, {-5, 7},
      {7, 5},  {-7, 5}, {8, 4},  {6, 7},  {-6, 7}, {7, 6},  {-7, 6}, {8, 5},  {7, 7},  {-7, 7}, {8, 6}, {8, 7},
  }};
  if (code > kNeighbours.size()) return code - static_cast<int64_t>(kNeighbours.size());
  const auto& [x, y] = kNeighbours[code - 1];
  return std::max<int64_t>(1, x + y * width);
}

// The bits of a cache's size; 0 without one.
std::optional<int> ReadCacheBits(BitReader& bits) {
  if (bits.Read(1) == 0) return 0;
  const int cache_bits = static_cast<int>(bits.Read(4));
  if (cache_bits < 1 || cache_bits > 11) return std::nullopt;
  return cache_bits;
}

// Pixels that a later one may name by the hash of its colour.
class ColourCache {
 public:
  explicit ColourCache(int bits) : bits_(bits), colours_(bits > 0 ? size_t{1} << bits : 0) {}
  void Add(uint32_t argb) {
    if (bits_ > 0) colours_[argb * 0x1e35a7bdu >> (32 - bits_)] = argb;
  }
  uint32_t at(uint32_t key) const { return colours_[key]; }

 private:
  int bits_;
  std::vector<uint32_t> colours_;
};

// A picture that holds no groups itself: of a transform, or of the groups' numbers. Nothing: it is broken or cut off.
std::optional<std::vector<uint32_t>> ReadSubImage(BitReader& bits, int64_t width, int64_t height) {
  const std::optional<int> cache_bits = ReadCacheBits(bits);
  if (!cache_bits) return std::nullopt;
  const uint32_t cached = *cache_bits > 0 ? 1u << *cache_bits : 0;
  std::array<PrefixCode, 5> codes;
  for (size_t i = 0; i < codes.size(); ++i) {
    const uint32_t symbols = i == 0 ? kLiterals + kLengthCodes + cached : i == 4 ? kDistanceCodes : kLiterals;
    std::optional<PrefixCode> code = ReadCode(bits, symbols);
    if (!code) return std::nullopt;
    codes[i] = *std::move(code);
  }
  const auto& [green, red, blue, alpha, distance] = codes;
  ColourCache cache(*cache_bits);
  const auto size = static_cast<size_t>(width * height);
  std::vector<uint32_t> pixels;
  pixels.reserve(size);
  while (pixels.size() < size) {
    const uint32_t symbol = green.Read(bits);
    uint32_t length = 1;
    uint32_t argb = 0;
    int64_t back = 0;
    if (symbol < kLiterals) {
      argb = symbol << 8 | red.Read(bits) << 16;
      argb |= blue.Read(bits);
      argb |= alpha.Read(bits) << 24;
    } else if (symbol < kLiterals + kLengthCodes) {
      length = ReadReach(bits, symbol - kLiterals);
      back = Distance(ReadReach(bits, distance.Read(bits)), width);
      if (back > static_cast<int64_t>(pixels.size()) || length > size - pixels.size()) return std::nullopt;
    } else {
      argb = cache.at(symbol - kLiterals - kLengthCodes);
    }
    if (bits.past_end()) return std::nullopt;
    for (uint32_t i = 0; i < length; ++i) {
      pixels.push_back(back > 0 ? pixels[pixels.size() - static_cast<size_t>(back)] : argb);
      cache.Add(pixels.back());
    }
  }
  return pixels;
}

int64_t Blocks(int64_t pixels, uint32_t bits) { return (pixels + (int64_t{1} << bits) - 1) >> bits; }

// False: broken or cut off. `width` becomes that of the packed pixels.
bool SkipTransforms(BitReader& bits, int64_t& width, int64_t height) {
  enum Transform : uint32_t { kPredictor, kCrossColour, kSubtractGreen, kColourIndexing };
  uint32_t seen = 0;
  while (bits.Read(1) != 0) {
    const uint32_t type = bits.Read(2);
    if ((seen >> type & 1) != 0) return false;
    seen |= 1u << type;
    if (type == kPredictor || type == kCrossColour) {
      const uint32_t block = bits.Read(3) + 2;
      if (!ReadSubImage(bits, Blocks(width, block), Blocks(height, block))) return false;
    } else if (type == kColourIndexing) {
      const uint32_t colours = bits.Read(8) + 1;
      if (!ReadSubImage(bits, colours, 1)) return false;
      width = Blocks(width, colours <= 2 ? 3 : colours <= 4 ? 2 : colours <= 16 ? 1 : 0);
    }
  }
  return !bits.past_end();
}

// From behind the header on.
int64_t CountGroups(BitReader& bits, int64_t width, int64_t height) {
  if (!SkipTransforms(bits, width, height) || !ReadCacheBits(bits)) return 0;
  if (bits.Read(1) == 0) return bits.past_end() ? 0 : 1;
  const uint32_t block = bits.Read(3) + 2;
  const std::optional<std::vector<uint32_t>> numbers = ReadSubImage(bits, Blocks(width, block), Blocks(height, block));
  if (!numbers) return 0;
  std::bitset<65536> seen;
  int64_t end = 0;
  for (const uint32_t argb : *numbers) {
    const uint32_t number = argb >> 8 & 0xffff;
    seen.set(number);
    end = std::max<int64_t>(end, number + 1);
  }
  // Of many, libwebp makes only those that are used.
  return end > 1000 || end > width * height ? static_cast<int64_t>(seen.count()) : end;
}

absl::Status CheckCount(int64_t groups) {
  if (groups <= kMaxPrefixCodeGroups) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("WebP has ", groups, " groups of prefix codes; the limit is ",
                                                 kMaxPrefixCodeGroups, ", the most that libwebp writes"));
}

}  // namespace

int64_t PrefixCodeBytes(ImageSize size) {
  // Of libwebp's tables for the largest colour cache, and its HTreeGroup.
  constexpr int64_t kGroupBytes = 5004 * 4 + 568;
  const int64_t pixels = size.width * size.height;
  const int64_t used = std::max(std::min<int64_t>(pixels, 1000), Blocks(size.width, 2) * Blocks(size.height, 2));
  return std::min(used, kMaxPrefixCodeGroups) * kGroupBytes;
}

int64_t CountPrefixCodeGroups(std::string_view vp8l) {
  BitReader bits(vp8l);
  bits.Read(8);  // signature
  const int64_t width = bits.Read(14) + 1;
  const int64_t height = bits.Read(14) + 1;
  bits.Read(4);  // alpha, version
  return CountGroups(bits, width, height);
}

absl::Status CheckPrefixCodeGroups(std::string_view chunks, ImageSize size) {
  constexpr size_t kHeader = 8;
  while (chunks.size() >= kHeader) {
    const size_t length = BitReader(chunks.substr(4, 4)).Read(32);
    const std::string_view type = chunks.substr(0, 4);
    if (type == "VP8 ") break;
    // libwebp reads on behind the chunk's end.
    if (type == "VP8L") return CheckCount(CountPrefixCodeGroups(chunks.substr(kHeader)));
    if (type == "ALPH") {
      // Two bits of its first byte say whether it is compressed. It is as large as the picture.
      BitReader bits(chunks.substr(kHeader, length));
      const bool lossless = (bits.Read(8) & 3) == 1;
      if (absl::Status status = CheckCount(lossless ? CountGroups(bits, size.width, size.height) : 0); !status.ok()) {
        return status;
      }
    }
    chunks.remove_prefix(std::min(chunks.size(), kHeader + length + (length & 1)));
  }
  return absl::OkStatus();
}

}  // namespace lion
