#include "model_loader/zip_reader.h"

#include <gmock/gmock.h>

#include "tests/model_loader/test_files.h"

namespace lion {
namespace {

using testing::AsBytes;
using ::testing::HasSubstr;
using testing::Little;
using testing::Zip;

std::string ParseError(const std::string& archive) {
  const auto zip = ZipReader::Parse(AsBytes(archive));
  EXPECT_FALSE(zip.ok());
  return std::string(zip.status().message());
}

std::string FindError(const std::string& archive, const std::string& name) {
  const auto zip = ZipReader::Parse(AsBytes(archive));
  EXPECT_TRUE(zip.ok()) << zip.status();
  const auto data = zip->Find(name);
  EXPECT_FALSE(data.ok());
  return std::string(data.status().message());
}

std::string Replace(std::string text, size_t at, const std::string& by) { return text.replace(at, by.size(), by); }

TEST(ZipReader, FindsStoredEntriesWhereTheyLie) {
  const std::string archive = Zip({{"a/b", "first"}, {"c", ""}, {"d", "third"}}, false, "a comment");
  const auto zip = ZipReader::Parse(AsBytes(archive));
  ASSERT_TRUE(zip.ok()) << zip.status();
  EXPECT_EQ(AsText(*zip->Find("a/b")), "first");
  EXPECT_EQ(zip->Find("a/b")->data(), AsBytes(archive).data() + archive.find("first"));
  EXPECT_EQ(zip->Find("c")->size(), 0u);
  EXPECT_EQ(AsText(*zip->Find("d")), "third");
  EXPECT_EQ(zip->Find("e").status().code(), absl::StatusCode::kNotFound);
}

TEST(ZipReader, ReadsZip64) {
  const std::string archive = Zip({{"a", "first"}, {"b", "second", true}}, true);
  const auto zip = ZipReader::Parse(AsBytes(archive));
  ASSERT_TRUE(zip.ok()) << zip.status();
  EXPECT_EQ(AsText(*zip->Find("a")), "first");
  EXPECT_EQ(AsText(*zip->Find("b")), "second");
}

TEST(ZipReader, RefusesCompressedAndEncryptedEntries) {
  EXPECT_THAT(FindError(Zip({{"a", "x", false, 8}}), "a"), HasSubstr("entry a is compressed (method 8)"));
  EXPECT_THAT(FindError(Zip({{"a", "x", false, 0, 1}}), "a"), HasSubstr("entry a is encrypted"));
}

TEST(ZipReader, RefusesEveryTruncation) {
  const std::string archive = Zip({{"a", "first"}, {"b", "second", true}}, true);
  for (size_t size = 0; size < archive.size(); ++size) {
    const std::string cut = archive.substr(0, size);
    EXPECT_FALSE(ZipReader::Parse(AsBytes(cut)).ok()) << size;
  }
}

TEST(ZipReader, RefusesEntriesOutsideTheArchive) {
  const std::string archive = Zip({{"a", "first"}});
  const size_t directory = archive.find("PK\x01\x02");
  EXPECT_THAT(ParseError(Replace(archive, directory + 42, Little<uint32_t>(1 << 30))), HasSubstr("no local header"));
  EXPECT_THAT(ParseError(Replace(archive, directory + 20, Little<uint32_t>(1 << 30))),
              HasSubstr("reach out of the file"));
  // Into the directory itself.
  EXPECT_THAT(ParseError(Replace(archive, directory + 20, Little<uint32_t>(6))), HasSubstr("reach out of the file"));
}

TEST(ZipReader, RefusesZip64OffsetsThatWrapAround) {
  const std::string archive = Zip({{"a", "first", true}}, true);
  const size_t field = archive.find(Little<uint16_t>(1) + Little<uint16_t>(24)) + 4;
  EXPECT_THAT(ParseError(Replace(archive, field + 8, Little<uint64_t>(UINT64_MAX - 10))), HasSubstr("reach out"));
  EXPECT_THAT(ParseError(Replace(archive, field + 16, Little<uint64_t>(UINT64_MAX - 10))),
              HasSubstr("no local header"));
  const size_t end = archive.find("PK\x06\x06");
  EXPECT_THAT(ParseError(Replace(archive, end + 48, Little<uint64_t>(UINT64_MAX - 10))),
              HasSubstr("central directory"));
  EXPECT_THAT(ParseError(Replace(archive, end + 32, Little<uint64_t>(UINT64_MAX))), HasSubstr("promises"));
  const size_t locator = archive.find("PK\x06\x07");
  EXPECT_THAT(ParseError(Replace(archive, locator + 8, Little<uint64_t>(UINT64_MAX - 10))), HasSubstr("zip64 locator"));
}

TEST(ZipReader, RefusesASizeThatDiffersFromTheStoredOne) {
  const std::string archive = Zip({{"a", "first"}});
  const size_t directory = archive.find("PK\x01\x02");
  EXPECT_THAT(FindError(Replace(archive, directory + 24, Little<uint32_t>(4)), "a"), HasSubstr("claims 4"));
}

TEST(ZipReader, ChecksTheCrc32) {
  const std::string archive = Zip({{"digits", "123456789"}, {"unsaid", "abc", false, 0, 0x808, 0}});
  const auto zip = ZipReader::Parse(AsBytes(archive));
  ASSERT_TRUE(zip.ok()) << zip.status();
  EXPECT_EQ(zip->entries().at("digits").crc32, 0xcbf43926u);  // the algorithm's published check value
  EXPECT_TRUE(zip->CheckCrc32("digits").ok()) << zip->CheckCrc32("digits");
  EXPECT_TRUE(zip->CheckCrc32("unsaid").ok()) << zip->CheckCrc32("unsaid");
  EXPECT_EQ(zip->CheckCrc32("none").code(), absl::StatusCode::kNotFound);
}

TEST(ZipReader, SeesEveryFlippedBit) {
  const std::string archive = Zip({{"a", "12345678"}});
  for (size_t bit = 0; bit < 64; ++bit) {
    std::string damaged = archive;
    damaged[archive.find("12345678") + bit / 8] ^= static_cast<char>(1 << bit % 8);
    const auto zip = ZipReader::Parse(AsBytes(damaged));
    ASSERT_TRUE(zip.ok()) << zip.status();
    EXPECT_FALSE(zip->CheckCrc32("a").ok()) << bit;
  }
  const std::string wrong = Zip({{"a", "123456789", false, 0, 0x808, 0x00c0ffee}});
  EXPECT_THAT(std::string(ZipReader::Parse(AsBytes(wrong))->CheckCrc32("a").message()),
              HasSubstr("entry a is damaged: its bytes have CRC-32 0xcbf43926, expected 0x00c0ffee"));
}

TEST(ZipReader, RefusesDuplicateAndMismatchedNames) {
  EXPECT_THAT(ParseError(Zip({{"a", "x"}, {"a", "y"}})), HasSubstr("two entries are named a"));
  EXPECT_THAT(ParseError(Replace(Zip({{"a", "x"}}), 30, "b")), HasSubstr("another name"));
}

}  // namespace
}  // namespace lion
