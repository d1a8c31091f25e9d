#include "model_loader/json.h"

#include <set>
#include <string>
#include <vector>

#include "model_loader/bytes.h"

namespace lion {
namespace {

constexpr size_t kMaxDepth = 32;

// Builds the document, stopping at the first fault: nothing is built from text after it.
class StrictBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Json = nlohmann::json;

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary data"); }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    if (open_.back()->contains(value)) return Fail(Concat("the key \"", value, "\" stands twice"));
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& reason) override {
    const std::string_view what = reason.what();
    return Fail(Concat("at byte ", position, ": ", what.substr(what.find("] ") + 2)));
  }

  Json root;
  std::string error;

 private:
  bool Fail(std::string why) {
    error = std::move(why);
    return false;
  }

  Json* Place(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &((*open_.back())[key_] = std::move(value));
  }

  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }

  // A parent never gets another child while this one is open, so the pointers on the stack stay valid.
  bool Open(Json value) {
    if (open_.size() == kMaxDepth) return Fail(Concat("nested deeper than ", kMaxDepth));
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;
  std::string key_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text) {
  StrictBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return InvalidFile("JSON: ", builder.error);
  return std::move(builder.root);
}

}  // namespace lion
