// Requests from a generator: good ones of every kind, each broken in one way, and bytes that were changed on the wire.
#include <grpcpp/generic/generic_stub.h>

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/server/inference/infer_fixture.h"

namespace lion {
namespace {

using testing::AddInput;
using testing::AddRaw;
using testing::Raw;
using testing::RawBytes;

using Request = inference::ModelInferRequest;
using Random = std::mt19937_64;

constexpr int kBroken = 10'000;
constexpr int kScrambled = 3'000;

int64_t Below(Random* random, int64_t limit) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(limit));
}
template <class Value>
const Value& OneOf(Random* random, const std::vector<Value>& values) {
  return values[static_cast<size_t>(Below(random, static_cast<int64_t>(values.size())))];
}

Request GoodTexts(Random* random) {
  std::vector<std::string> texts;
  for (int64_t i = 1 + Below(random, 3); i > 0; --i)
    texts.push_back(OneOf<std::string>(random, {"a", "the lion", "b c"}));
  Request request;
  const auto count = static_cast<int64_t>(texts.size());
  const std::vector<int64_t> shape =
      Below(random, 2) == 0 ? std::vector<int64_t>{count} : std::vector<int64_t>{count, 1};
  if (Below(random, 2) == 0) {
    AddRaw("text", "BYTES", shape, RawBytes(texts), &request);
  } else {
    auto* const contents = AddInput("text", "BYTES", shape, &request)->mutable_contents();
    for (const std::string& text : texts) contents->add_bytes_contents(text);
  }
  return request;
}

Request GoodIds(Random* random) {
  const int64_t count = 1 + Below(random, 3), length = 1 + Below(random, 5);
  std::vector<int64_t> ids, mask, types;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = Below(random, length), end = begin + 1 + Below(random, length - begin);
    for (int64_t place = 0; place < length; ++place) {
      ids.push_back(Below(random, 80));
      mask.push_back(place >= begin && place < end ? 1 : 0);
      types.push_back(Below(random, 2));
    }
  }
  Request request;
  AddRaw("input_ids", "INT64", {count, length}, Raw(ids), &request);
  if (Below(random, 2) == 0) AddRaw("attention_mask", "INT64", {count, length}, Raw(mask), &request);
  if (Below(random, 2) == 0) AddRaw("token_type_ids", "INT64", {count, length}, Raw(types), &request);
  return request;
}

Request GoodPixels(Random* random) {
  const int64_t count = 1 + Below(random, 2), height = 8 + Below(random, 9), width = 8 + Below(random, 9);
  const auto elements = static_cast<size_t>(count * 3 * height * width);
  const std::vector<int64_t> shape = {count, 3, height, width};
  Request request;
  if (Below(random, 2) == 0) {
    AddRaw("pixels", "FP32", shape, Raw(std::vector<float>(elements, 1)), &request);
  } else {
    AddRaw("pixels", "UINT8", shape, std::string(elements, '\x07'), &request);
  }
  return request;
}

// What makes any good request a bad one. False: it does not apply to this one.
struct Fault {
  const char* name;
  std::function<bool(Request*, Random*)> make;
};

Request::InferInputTensor* AnyInput(Request* request, Random* random) {
  return request->mutable_inputs(static_cast<int>(Below(random, request->inputs_size())));
}
bool IsRaw(const Request& request) { return request.raw_input_contents_size() > 0; }
std::string* AnyRaw(Request* request, Random* random) {
  return request->mutable_raw_input_contents(static_cast<int>(Below(random, request->raw_input_contents_size())));
}

const std::vector<Fault>& Faults() {
  static const auto* const kFaults = new std::vector<Fault>{
      {"an extent below 1",
       [](Request* request, Random* random) {
         auto* const shape = AnyInput(request, random)->mutable_shape();
         shape->Set(static_cast<int>(Below(random, shape->size())),
                    OneOf<int64_t>(random, {0, -1, -7, std::numeric_limits<int64_t>::min()}));
         return true;
       }},
      {"a huge extent",
       [](Request* request, Random* random) {
         auto* const shape = AnyInput(request, random)->mutable_shape();
         shape->Set(static_cast<int>(Below(random, shape->size())),
                    OneOf<int64_t>(random, {1000, int64_t{1} << 31, int64_t{1} << 62, (int64_t{1} << 62) + 1,
                                            std::numeric_limits<int64_t>::max()}));
         return true;
       }},
      {"an extent too many",
       [](Request* request, Random* random) {
         auto* const input = AnyInput(request, random);
         while (input->shape_size() < 5) input->add_shape(1);
         return true;
       }},
      {"no shape",
       [](Request* request, Random* random) {
         AnyInput(request, random)->clear_shape();
         return true;
       }},
      {"a byte too many",
       [](Request* request, Random* random) {
         if (!IsRaw(*request)) return false;
         AnyRaw(request, random)->push_back('x');
         return true;
       }},
      {"bytes too few",
       [](Request* request, Random* random) {
         if (!IsRaw(*request)) return false;
         std::string* const raw = AnyRaw(request, random);
         raw->resize(static_cast<size_t>(Below(random, static_cast<int64_t>(raw->size()))));
         return true;
       }},
      {"a length that points past the end",
       [](Request* request, Random* random) {
         if (!IsRaw(*request) || request->inputs(0).datatype() != "BYTES") return false;
         std::string* const raw = AnyRaw(request, random);
         const auto length = static_cast<uint32_t>(raw->size() - 3 + static_cast<size_t>(Below(random, 1 << 30)));
         std::memcpy(raw->data(), &length, sizeof(length));
         return true;
       }},
      {"raw contents too many",
       [](Request* request, Random* /*random*/) {
         if (!IsRaw(*request)) return false;
         request->add_raw_input_contents("");
         return true;
       }},
      {"raw bytes beside contents",
       [](Request* request, Random* random) {
         AnyInput(request, random)->mutable_contents()->add_fp32_contents(1);
         if (!IsRaw(*request)) request->add_raw_input_contents("x");
         return true;
       }},
      {"contents of another field",
       [](Request* request, Random* /*random*/) {
         if (IsRaw(*request)) return false;
         request->mutable_inputs(0)->mutable_contents()->add_bool_contents(true);
         return true;
       }},
      {"another datatype",
       [](Request* request, Random* random) {
         AnyInput(request, random)
             ->set_datatype(
                 OneOf<std::string>(random, {"", "FP16", "BOOL", "FP64", "UINT64", "string", "BYTES ", "\x7f"}));
         return true;
       }},
      {"another name",
       [](Request* request, Random* random) {
         AnyInput(request, random)->set_name(OneOf<std::string>(random, {"", "logits", "INPUT__0", "Text", "a\nb"}));
         return true;
       }},
      {"an input twice",
       [](Request* request, Random* /*random*/) {
         *request->add_inputs() = request->inputs(0);
         if (IsRaw(*request)) request->add_raw_input_contents(request->raw_input_contents(0));
         return true;
       }},
      {"no inputs",
       [](Request* request, Random* /*random*/) {
         request->clear_inputs();
         request->clear_raw_input_contents();
         return true;
       }},
      {"an output that there is not",
       [](Request* request, Random* random) {
         request->add_outputs()->set_name(OneOf<std::string>(random, {"", "text", "embedding", "OUTPUT__0"}));
         return true;
       }},
      {"a parameter that is none",
       [](Request* request, Random* random) {
         (*request->mutable_parameters())[OneOf<std::string>(random, {"pooling", "truncate", "dimensions", "priority"})]
             .set_double_param(0.5);
         return true;
       }},
  };
  return *kFaults;
}

class InferHostileTest : public InferTest {
 protected:
  void SetUp() override {
    InferTest::SetUp();
    const ModelServiceOptions options = {.max_input_tokens = 1024, .max_inputs_per_call = 8};
    AddModel("images", options);
    AddModel("texts", options, PuppetEngine::OfText());
    Serve();
  }

  static Request Good(Random* random) {
    const int64_t kind = Below(random, 3);
    Request request = kind == 0 ? GoodTexts(random) : kind == 1 ? GoodIds(random) : GoodPixels(random);
    request.set_model_name(kind == 2 ? "images" : "texts");
    return request;
  }

  grpc::Status Send(const std::string& bytes, std::string* reply) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    auto call = stub.PrepareUnaryCall(&context, "/inference.GRPCInferenceService/ModelInfer", request, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    grpc::Slice all;
    if (status.ok() && response.DumpToSingleSlice(&all).ok()) {
      reply->assign(reinterpret_cast<const char*>(all.begin()), all.size());
    }
    return status;
  }
};

TEST_F(InferHostileTest, WhatIsGoodIsAnswered) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const Inferred answer = Infer(Good(&random));
    ASSERT_TRUE(answer.status.ok()) << i << ": " << answer.status.error_message();
  }
}

TEST_F(InferHostileTest, EveryFaultIsAnArgumentErrorThatSaysWhatWasFound) {
  Random random(2);
  std::vector<int> made(Faults().size(), 0);
  for (int i = 0; i < kBroken;) {
    const auto which = static_cast<size_t>(Below(&random, static_cast<int64_t>(Faults().size())));
    Request request = Good(&random);
    const std::string good = request.ShortDebugString();
    if (!Faults()[which].make(&request, &random)) continue;
    ++made[which];
    ++i;
    const grpc::Status status = Infer(request).status;
    ASSERT_EQ(status.error_code(), grpc::INVALID_ARGUMENT)
        << i << ": " << Faults()[which].name << " in " << good << ": " << status.error_message();
    ASSERT_THAT(status.error_message(),
                ::testing::MatchesRegex("(.|\n)*(want|takes|has|there are two|are left)(.|\n)*"))
        << i << ": " << Faults()[which].name;
  }
  for (size_t i = 0; i < made.size(); ++i) EXPECT_GT(made[i], 100) << Faults()[i].name;
}

TEST_F(InferHostileTest, ChangedBytesNeverHarmTheServer) {
  Random random(3);
  int answered = 0;
  for (int i = 0; i < kScrambled; ++i) {
    std::string bytes = Good(&random).SerializeAsString();
    for (int64_t change = Below(&random, 4); change >= 0; --change) {
      const auto at = static_cast<size_t>(Below(&random, static_cast<int64_t>(bytes.size())));
      switch (Below(&random, 3)) {
        case 0:
          bytes[at] = static_cast<char>(Below(&random, 256));
          break;
        case 1:
          bytes.erase(at, static_cast<size_t>(1 + Below(&random, 8)));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(Below(&random, 256)));
      }
      if (bytes.empty()) bytes = "x";
    }
    std::string reply;
    const grpc::Status status = Send(bytes, &reply);
    if (status.ok()) {
      ++answered;
      inference::ModelInferResponse response;
      ASSERT_TRUE(response.ParseFromString(reply)) << i;
      ASSERT_EQ(response.outputs_size(), response.raw_output_contents_size()) << i;
      continue;
    }
    ASSERT_TRUE(status.error_code() == grpc::INVALID_ARGUMENT || status.error_code() == grpc::NOT_FOUND ||
                status.error_code() == grpc::INTERNAL)
        << i << ": " << status.error_code() << " " << status.error_message();
    ASSERT_NE(status.error_message(), "") << i;
  }
  EXPECT_GT(answered, 100);
  EXPECT_TRUE(Infer(Good(&random)).status.ok());
}

}  // namespace
}  // namespace lion
