// The table of contents of a zip archive.
#include "model_loader/zip_reader.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/peak_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lion;
  fuzz::PeakMemory memory;
  const auto zip = ZipReader::Parse(Bytes(data, size));
  fuzz::CheckAtMost(memory.bytes(), 64 * static_cast<int64_t>(size) + 16384, "bytes of memory to read the directory");
  fuzz::CheckRefusal(zip.status(), absl::StatusCode::kInvalidArgument, "reading a zip archive");
  if (!zip.ok()) return 0;
  for (const auto& [name, entry] : zip->entries()) {
    fuzz::Check(entry.data.empty() || (entry.data.data() >= data && entry.data.end() <= data + size),
                "an entry lies inside the archive");
    const auto found = zip->Find(name);
    fuzz::CheckRefusal(found.status(), absl::StatusCode::kInvalidArgument, "finding an entry");
    if (found.ok()) fuzz::CheckEqual(static_cast<int64_t>(found->size()), static_cast<int64_t>(entry.size), "its size");
    fuzz::CheckRefusal(zip->CheckCrc32(name), absl::StatusCode::kInvalidArgument, "checking an entry");
  }
  return 0;
}
