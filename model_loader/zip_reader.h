// The table of contents of a zip archive in memory, as torch.save writes it: stored entries, zip64 where large.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model_loader/bytes.h"

namespace lion {

// Views into the archive's bytes, which must outlive it. Immutable after Parse.
//
// Checked: every offset and size against the archive with overflow checks, one disk, unique names, each local header's
// signature and name. The data is not read before CheckCrc32.
class ZipReader {
 public:
  // INVALID_ARGUMENT naming the rule and the entry. Messages carry no path: the caller adds it.
  static absl::StatusOr<ZipReader> Parse(Bytes archive);

  bool Has(const std::string& name) const { return entries_.contains(name); }

  // The bytes of a stored entry, not copied. NOT_FOUND without such an entry; INVALID_ARGUMENT for a compressed or
  // encrypted one.
  absl::StatusOr<Bytes> Find(const std::string& name) const;

  // Reads all of the entry's bytes (2 to 3 GB/s, from memory) against the CRC-32 that the archive gives for them. OK
  // where that is 0, as torch.save leaves it when told to compute none. INVALID_ARGUMENT naming the entry and both
  // values; otherwise as of Find.
  absl::Status CheckCrc32(const std::string& name) const;

  struct Entry {
    uint16_t flags = 0;
    uint16_t method = 0;  // 0: stored
    Bytes data;           // as it lies in the archive, compressed or not
    uint64_t size = 0;    // after decompression
    uint32_t crc32 = 0;   // of the decompressed bytes; 0: not given
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace lion
