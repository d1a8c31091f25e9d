// Layout: APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16 (its end).
#include "model_loader/zip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <iomanip>

namespace lion {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kZip64End = 0x06064b50, kZip64Locator = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kZip64EndSize = 56, kLocatorSize = 20;
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint16_t kEncryptedFlag = 1;

uint16_t U16(Bytes b, size_t at) { return ReadLittleEndian<uint16_t>(b.data() + at); }
uint32_t U32(Bytes b, size_t at) { return ReadLittleEndian<uint32_t>(b.data() + at); }
uint64_t U64(Bytes b, size_t at) { return ReadLittleEndian<uint64_t>(b.data() + at); }

bool Inside(Bytes bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

std::string Hex(uint32_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << std::setw(8) << std::setfill('0') << value;
  return text.str();
}

struct Directory {
  uint64_t entries = 0, size = 0, offset = 0;
};

absl::StatusOr<Directory> FindDirectory(Bytes archive) {
  if (archive.size() < kEndSize) return InvalidFile("zip: the file has ", archive.size(), " bytes and no end record");
  const size_t lowest = archive.size() - std::min<size_t>(archive.size(), kEndSize + 0xffff);
  size_t end = archive.size() - kEndSize;
  while (U32(archive, end) != kEnd || end + kEndSize + U16(archive, end + 20) != archive.size()) {
    if (end == lowest)
      return InvalidFile("zip: no end-of-central-directory record: the file is truncated or not a zip");
    --end;
  }
  if (U16(archive, end + 4) != U16(archive, end + 6)) return InvalidFile("zip: an archive of several disks");
  Directory directory{U16(archive, end + 10), U32(archive, end + 12), U32(archive, end + 16)};
  const bool zip64 = end >= kLocatorSize && U32(archive, end - kLocatorSize) == kZip64Locator;
  if (zip64) {
    const uint64_t at = U64(archive, end - kLocatorSize + 8);
    if (!Inside(archive, at, kZip64EndSize) || U32(archive, at) != kZip64End) {
      return InvalidFile("zip: the zip64 locator points to ", at, ", where no zip64 end record is");
    }
    if (U32(archive, at + 16) != U32(archive, at + 20)) return InvalidFile("zip: an archive of several disks");
    directory = {U64(archive, at + 32), U64(archive, at + 40), U64(archive, at + 48)};
  }
  if (!Inside(archive, directory.offset, directory.size) || directory.offset + directory.size > end) {
    return InvalidFile("zip: the central directory (offset ", directory.offset, ", ", directory.size,
                       " bytes) reaches out of the file of ", archive.size(), " bytes");
  }
  return directory;
}

// Replaces the 32-bit fields that are all ones by the 64-bit ones of the extra field, in their fixed order.
absl::Status ApplyZip64(const std::string& name, Bytes extra, uint64_t* size, uint64_t* stored, uint64_t* offset) {
  uint64_t* const fields[] = {size, stored, offset};
  if (std::none_of(std::begin(fields), std::end(fields), [](uint64_t* f) { return *f == 0xffffffffu; })) {
    return absl::OkStatus();
  }
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint16_t id = U16(extra, at), length = U16(extra, at + 2);
    if (!Inside(extra, at + 4, length)) return InvalidFile("zip: entry ", name, ": an extra field is cut off");
    if (id == kZip64Extra) {
      const Bytes body = extra.subspan(at + 4, length);
      size_t next = 0;
      for (uint64_t* field : fields) {
        if (*field != 0xffffffffu) continue;
        if (!Inside(body, next, 8)) return InvalidFile("zip: entry ", name, ": its zip64 field is cut off");
        *field = U64(body, next);
        next += 8;
      }
      return absl::OkStatus();
    }
    at += 4 + size_t{length};
  }
  // Without the field, exactly 0xffffffff bytes are meant.
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ZipReader> ZipReader::Parse(Bytes archive) {
  const auto directory = FindDirectory(archive);
  if (!directory.ok()) return directory.status();
  // Nothing an entry says may lie at or behind the directory itself.
  const Bytes files = archive.first(directory->offset);
  Bytes rest = archive.subspan(directory->offset, directory->size);
  ZipReader reader;
  for (uint64_t i = 0; i < directory->entries; ++i) {
    if (rest.size() < kCentralSize || U32(rest, 0) != kCentralHeader) {
      return InvalidFile("zip: the central directory promises ", directory->entries, " entries, number ", i,
                         " is cut off or has a wrong signature");
    }
    const size_t name_size = U16(rest, 28), extra_size = U16(rest, 30), comment_size = U16(rest, 32);
    if (!Inside(rest, kCentralSize, name_size + extra_size + comment_size)) {
      return InvalidFile("zip: entry number ", i, " of the central directory is cut off");
    }
    const std::string name(AsText(rest.subspan(kCentralSize, name_size)));
    Entry entry{U16(rest, 8), U16(rest, 10), {}, U32(rest, 24), U32(rest, 16)};
    uint64_t stored = U32(rest, 20), offset = U32(rest, 42);
    const Bytes extra = rest.subspan(kCentralSize + name_size, extra_size);
    if (auto status = ApplyZip64(name, extra, &entry.size, &stored, &offset); !status.ok()) return status;
    if (!Inside(files, offset, kLocalSize) || U32(files, offset) != kLocalHeader) {
      return InvalidFile("zip: entry ", name, ": no local header at offset ", offset);
    }
    const size_t local_name_size = U16(files, offset + 26), local_extra_size = U16(files, offset + 28);
    const uint64_t data = offset + kLocalSize + local_name_size + local_extra_size;
    if (!Inside(files, data, stored)) {
      return InvalidFile("zip: entry ", name, ": its ", stored, " bytes at ", data, " reach out of the file");
    }
    if (AsText(files.subspan(offset + kLocalSize, local_name_size)) != name) {
      return InvalidFile("zip: entry ", name, ": its local header has another name");
    }
    entry.data = files.subspan(data, stored);
    if (!reader.entries_.emplace(name, entry).second) return InvalidFile("zip: two entries are named ", name);
    rest.remove_prefix(kCentralSize + name_size + extra_size + comment_size);
  }
  return reader;
}

absl::StatusOr<Bytes> ZipReader::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return absl::NotFoundError(Concat("zip: no entry is named ", name));
  const Entry& entry = found->second;
  if (entry.flags & kEncryptedFlag) return InvalidFile("zip: entry ", name, " is encrypted");
  if (entry.method != 0) {
    return InvalidFile("zip: entry ", name, " is compressed (method ", entry.method,
                       "); torch.save stores entries uncompressed, so re-save the checkpoint with it");
  }
  if (entry.size != entry.data.size()) {
    return InvalidFile("zip: entry ", name, " is stored in ", entry.data.size(), " bytes but claims ", entry.size);
  }
  return entry.data;
}

absl::Status ZipReader::CheckCrc32(const std::string& name) const {
  const auto data = Find(name);
  if (!data.ok()) return data.status();
  const uint32_t expected = entries_.at(name).crc32;
  if (expected == 0) return absl::OkStatus();
  const auto found = static_cast<uint32_t>(crc32_z(0, data->data(), data->size()));
  if (found == expected) return absl::OkStatus();
  return InvalidFile("zip: entry ", name, " is damaged: its bytes have CRC-32 ", Hex(found), ", expected ",
                     Hex(expected));
}

}  // namespace lion
