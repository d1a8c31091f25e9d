// Requests of all kinds, as calls and on streams, and the books about what became of each.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "lion/client.h"
#include "lion/stream.h"

namespace lion::accounting {

// Names of one model. What a caller may end itself, by cancelling or by its own deadline, goes to the second: the
// server may have answered what its caller gave up at the same time, so that only the counts of the first are known
// exactly.
inline constexpr char kCounted[] = "counted";
inline constexpr char kGivenUp[] = "given-up";

enum class Kind { kGood, kSeveral, kHasty, kEmpty, kCorrupt, kUnknownModel, kTooLarge };

struct Sent {
  Kind kind = Kind::kGood;
  bool stream = false;
  bool given_up = false;
  std::vector<size_t> images;
  std::atomic<int> endings = 0;
};

// Any thread, once the images are there.
class Books {
 public:
  void AddImage(v1::Input image, std::string embedding);
  // A request of a random kind, and what it is.
  v1::EmbedRequest Make(std::mt19937& random, Sent* sent) const;
  void Take(Sent& sent, const absl::StatusOr<v1::EmbedResponse>& response);

  // Endings of the requests to that name; those to a model that there is not are of the first.
  int64_t endings(bool given_up, bool stream, absl::StatusCode code) const;
  int64_t endings(absl::StatusCode code) const;
  // "123 OK, 4 CANCELLED"
  std::string Describe() const;
  int64_t wrong() const { return wrong_; }
  int64_t twice() const { return twice_; }
  int64_t unexpected() const { return unexpected_; }

 private:
  std::vector<v1::Input> images_;
  std::vector<std::string> alone_;  // the embedding of each, as bytes
  std::atomic<int64_t> wrong_ = 0, twice_ = 0, unexpected_ = 0;
  mutable std::mutex mutex_;
  std::map<std::tuple<bool, bool, absl::StatusCode>, int64_t> endings_;  // of given_up, stream, code
};

v1::Input RandomImage(std::mt19937& random);

// One client: streams and bursts of calls in turn, an eighth of which it gives up. Returns once all have an ending.
void RunClient(const std::string& address, int requests, uint32_t seed, Books& books, std::deque<Sent>& sent);

}  // namespace lion::accounting
