// ModelInfer requests that break a rule of the protocol: each is INVALID_ARGUMENT with what was found and expected.
#include <limits>
#include <string>
#include <vector>

#include "tests/server/inference/infer_fixture.h"

namespace lion {
namespace {

using testing::AddInput;
using testing::AddRaw;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Raw;
using testing::RawBytes;
using ::testing::StartsWith;
using testing::TextsRequest;

class InferErrorsTest : public InferTest {
 protected:
  // The text tensor alone.
  static inference::ModelInferRequest TextTensor(const std::vector<int64_t>& shape, const std::string& raw,
                                                 const std::string& datatype = "BYTES") {
    inference::ModelInferRequest request;
    AddRaw("text", datatype, shape, raw, &request);
    return request;
  }
  // `parameters` of one value.
  template <class Set>
  static inference::ModelInferRequest WithParameter(const std::string& name, Set set) {
    inference::ModelInferRequest request = PixelsRequest({1});
    set(&(*request.mutable_parameters())[name]);
    return request;
  }
};

TEST_F(InferErrorsTest, Shapes) {
  PuppetEngine* const engine = ServeTexts();
  const std::string one = RawBytes({"a"});
  ExpectInvalid(TextTensor({}, one), HasSubstr("input 'text': the shape is [], want at least the batch"));
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{0}, {-1}, {1, 0}, {-1, 1}, {1, -1}, {std::numeric_limits<int64_t>::min()}}) {
    ExpectInvalid(TextTensor(shape, one), HasSubstr("want extents of at least 1"));
  }
  ExpectInvalid(TextTensor({int64_t{1} << 62, 4}, one), HasSubstr("more elements than there can be"));
  ExpectInvalid(TextTensor({int64_t{1} << 62}, one), HasSubstr("got 5 raw bytes, want at least 4 for the length"));
  ExpectInvalid(TextTensor({1, 2}, RawBytes({"a", "b"})), HasSubstr("the shape is [1, 2], want [N] or [N, 1]"));
  ExpectInvalid(TextTensor({1, 1, 1}, one), HasSubstr("want [N] or [N, 1]"));
  ExpectInvalid(TextTensor(std::vector<int64_t>(1000, 1), one), HasSubstr("1, ... of 1000]"));
  ExpectInvalid(IdsRequest({4}, {1, 2, 3, 4}), HasSubstr("the shape is [4], want [N, L]"));
  EXPECT_EQ(engine->inputs(), 0);
}

TEST_F(InferErrorsTest, ShapesOfPixels) {
  ServeOne();
  const std::string raw(3 * 16 * 16 * 4, '\0');
  const auto pixels = [&raw](const std::vector<int64_t>& shape) {
    inference::ModelInferRequest request;
    AddRaw("pixels", "FP32", shape, raw, &request);
    return request;
  };
  ExpectInvalid(pixels({1, 16, 16, 3}),
                HasSubstr("the shape is [1, 16, 16, 3], want [N, 3, height, width], planar RGB"));
  ExpectInvalid(pixels({3, 16, 16}), HasSubstr("want [N, 3, height, width]"));
  ExpectInvalid(pixels({1, 3, 16, 17}), HasSubstr("got 3072 raw bytes, want 3264 for FP32 [1, 3, 16, 17]"));
  ExpectInvalid(pixels({1, 3, int64_t{1} << 61, 1}), HasSubstr("want more than there can be for FP32"));
  ExpectInvalid(pixels({4, 3, 4, 16}), StartsWith("input 0: an image of 16x4 pixels is smaller"));
}

TEST_F(InferErrorsTest, LengthsInsideBytes) {
  PuppetEngine* const engine = ServeTexts();
  ExpectInvalid(TextTensor({1}, ""), HasSubstr("got 0 raw bytes"));
  ExpectInvalid(TextTensor({1}, "abc"), HasSubstr("got 3 raw bytes, want at least 4"));
  ExpectInvalid(TextTensor({1}, std::string("\xff\xff\xff\xff", 4)),
                HasSubstr("element 0: its length is 4294967295, but 0 raw bytes are left"));
  ExpectInvalid(TextTensor({2}, RawBytes({"abcd"})), HasSubstr("element 1: 0 raw bytes are left, want 4"));
  ExpectInvalid(TextTensor({2}, RawBytes({"abcd"}) + "xyz"), HasSubstr("element 1: 3 raw bytes are left, want 4"));
  ExpectInvalid(TextTensor({1}, RawBytes({"a"}) + "b"), HasSubstr("1 raw bytes are left after the last of 1 elements"));
  ExpectInvalid(TextTensor({2}, RawBytes({"a", ""})), StartsWith("input 1: the text is empty"));
  EXPECT_EQ(engine->inputs(), 0);
}

TEST_F(InferErrorsTest, Datatypes) {
  ServeTexts();
  ExpectInvalid(TextTensor({1}, RawBytes({"a"}), "STRING"),
                HasSubstr("input 'text': the datatype is 'STRING', want BOOL, UINT8, "));
  ExpectInvalid(TextTensor({1}, "", ""), HasSubstr("the datatype is ''"));
  ExpectInvalid(TextTensor({1}, std::string(8, 'a'), "INT64"), HasSubstr("the datatype is INT64, want BYTES"));
  inference::ModelInferRequest ids;
  AddRaw("input_ids", "INT32", {1, 2}, Raw<int32_t>({1, 2}), &ids);
  ExpectInvalid(ids, HasSubstr("input 'input_ids': the datatype is INT32, want INT64"));
  inference::ModelInferRequest half;
  AddInput("text", "FP16", {1}, &half);
  ExpectInvalid(half, HasSubstr("FP16 has no contents: want raw_input_contents"));
}

TEST_F(InferErrorsTest, RawAndContents) {
  ServeTexts();
  inference::ModelInferRequest both = TextsRequest({"a"});
  both.mutable_inputs(0)->mutable_contents()->add_bytes_contents("a");
  ExpectInvalid(both, HasSubstr("input 'text': got contents beside raw_input_contents"));
  inference::ModelInferRequest more = TextsRequest({"a"});
  more.add_raw_input_contents("");
  ExpectInvalid(more, HasSubstr("got 2 raw_input_contents for 1 inputs"));
  inference::ModelInferRequest none;
  AddInput("text", "BYTES", {2}, &none);
  ExpectInvalid(none, HasSubstr("got 0 elements in contents.bytes_contents and 0 in others, want 2"));
  none.mutable_inputs(0)->mutable_contents()->add_bytes_contents("a");
  none.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  ExpectInvalid(none, HasSubstr("got 1 elements in contents.bytes_contents and 1 in others, want 2"));
}

TEST_F(InferErrorsTest, PixelsAboveAByte) {
  ServeOne();
  inference::ModelInferRequest request;
  auto* const contents = AddInput("pixels", "UINT8", {1, 3, 8, 8}, &request)->mutable_contents();
  for (int i = 0; i < 3 * 8 * 8; ++i) contents->add_uint_contents(i == 5 ? 256 : 0);
  ExpectInvalid(request, HasSubstr("input 'pixels': element 5 is 256, want 0 to 255"));
}

TEST_F(InferErrorsTest, WhichInputsThereAre) {
  ServeTexts({.max_inputs_per_call = 3});
  ExpectInvalid({}, HasSubstr("got no inputs, want of 'text', 'input_ids', 'attention_mask', 'token_type_ids'"));
  ExpectInvalid(PixelsRequest({1}), HasSubstr("input 'pixels': the model 'puppet' takes 'text', 'input_ids'"));
  inference::ModelInferRequest twice = TextsRequest({"a"});
  AddRaw("text", "BYTES", {1}, RawBytes({"a"}), &twice);
  ExpectInvalid(twice, HasSubstr("input 'text': there are two of that name"));
  inference::ModelInferRequest both = TextsRequest({"a"});
  AddRaw("input_ids", "INT64", {1, 1}, Raw<int64_t>({1}), &both);
  ExpectInvalid(both, HasSubstr("got both of the inputs 'text' and 'input_ids'"));
  inference::ModelInferRequest mask = TextsRequest({"a"});
  AddRaw("attention_mask", "INT64", {1, 1}, Raw<int64_t>({1}), &mask);
  ExpectInvalid(mask, HasSubstr("input 'attention_mask': it goes with 'input_ids'"));
  inference::ModelInferRequest alone;
  AddRaw("attention_mask", "INT64", {1, 1}, Raw<int64_t>({1}), &alone);
  ExpectInvalid(alone, HasSubstr("got neither of the inputs 'text' and 'input_ids'"));
  ExpectInvalid(TextsRequest({"a", "a", "a", "a"}), HasSubstr("--max-inputs-per-call"));
  inference::ModelInferRequest contents;
  auto* const elements = AddInput("text", "BYTES", {4}, &contents)->mutable_contents();
  for (int i = 0; i < 4; ++i) elements->add_bytes_contents("a");
  ExpectInvalid(contents, HasSubstr("--max-inputs-per-call"));
}

TEST_F(InferErrorsTest, BatchesAndLengthsThatDiffer) {
  ServeTexts();
  inference::ModelInferRequest batch = IdsRequest({2, 1}, {1, 2});
  AddRaw("attention_mask", "INT64", {1, 2}, Raw<int64_t>({1, 1}), &batch);
  ExpectInvalid(batch, HasSubstr("'attention_mask': the shape is [1, 2], want a batch of 2 as of input 'input_ids'"));
  inference::ModelInferRequest length = IdsRequest({1, 2}, {1, 2});
  AddRaw("token_type_ids", "INT64", {1, 1}, Raw<int64_t>({0}), &length);
  ExpectInvalid(length, HasSubstr("the shape is [1, 1], want [1, 2] as of input_ids"));
}

TEST_F(InferErrorsTest, Masks) {
  ServeTexts();
  const auto masked = [](const std::vector<int64_t>& mask) {
    inference::ModelInferRequest request = IdsRequest({2, 3}, {1, 2, 3, 4, 5, 6});
    AddRaw("attention_mask", "INT64", {2, 3}, Raw(mask), &request);
    return request;
  };
  ExpectInvalid(masked({1, 1, 1, 1, 0, 1}), HasSubstr("input 1: attention_mask: 0 at place 1 between tokens"));
  ExpectInvalid(masked({0, 0, 0, 1, 1, 1}), HasSubstr("input 0: attention_mask: all of it is 0"));
  ExpectInvalid(masked({1, 1, 1, 1, 1, 2}), HasSubstr("input 1: attention_mask: place 2 is 2, want 0"));
  ExpectInvalid(IdsRequest({1, 2}, {1, -1}), HasSubstr("input 0: tokens.ids[1] is -1"));
}

TEST_F(InferErrorsTest, Outputs) {
  ServeTexts();
  inference::ModelInferRequest request = TextsRequest({"a"});
  Want("nope", &request);
  ExpectInvalid(request, HasSubstr("output 'nope': the model 'puppet' has 'embeddings', 'logits'"));
  request.mutable_outputs(0)->set_name("token_count");
  Want("token_count", &request);
  ExpectInvalid(request, HasSubstr("output 'token_count': it is asked for twice"));
  request.mutable_outputs()->RemoveLast();
  auto& parameters = *request.mutable_outputs(0)->mutable_parameters();
  parameters["classification"].set_int64_param(1);
  ExpectInvalid(request, HasSubstr("classification goes with 'logits' and 'probabilities'"));
  parameters["classification"].set_int64_param(-1);
  ExpectInvalid(request, HasSubstr("output 'token_count': parameter 'classification': got -1, want an integer from 0"));
  request.mutable_outputs(0)->clear_parameters();
  request.mutable_outputs(0)->set_name("tokens");
  ExpectInvalid(request, HasSubstr("no mask token"));
  const inference::ModelInferRequest masks = TextsRequest({"[MASK]", "[MASK] [MASK]"});
  request.mutable_raw_input_contents()->CopyFrom(masks.raw_input_contents());
  request.mutable_inputs(0)->CopyFrom(masks.inputs(0));
  ExpectInvalid(request, HasSubstr("input 1: it has 2 mask tokens, want one"));
}

TEST_F(InferErrorsTest, Parameters) {
  ServeOne();
  using Parameter = inference::InferParameter*;
  ExpectInvalid(WithParameter("pooling", [](Parameter one) { one->set_string_param("sum"); }),
                HasSubstr("parameter 'pooling': got 'sum', want 'mean', 'cls'"));
  ExpectInvalid(WithParameter("pooling", [](Parameter one) { one->set_bool_param(true); }), HasSubstr("got a bool"));
  ExpectInvalid(WithParameter("pooling", [](Parameter one) { one->set_string_param("pooler"); }),
                HasSubstr("which the model does not have"));
  ExpectInvalid(WithParameter("normalize", [](Parameter one) { one->set_int64_param(1); }),
                HasSubstr("parameter 'normalize': got an integer, want a bool"));
  ExpectInvalid(WithParameter("truncate", [](Parameter one) { one->set_string_param("LEFT"); }),
                HasSubstr("parameter 'truncate': got 'LEFT', want 'NONE', 'START' or 'END'"));
  ExpectInvalid(WithParameter("dimensions", [](Parameter one) { one->set_int64_param(5); }),
                HasSubstr("parameter 'dimensions': got 5, the model's embeddings have 4"));
  ExpectInvalid(WithParameter("timeout", [](Parameter one) { one->set_int64_param(-1); }),
                HasSubstr("parameter 'timeout': got -1"));
  ExpectInvalid(WithParameter("priority", [](Parameter one) { one->set_string_param("1"); }),
                HasSubstr("parameter 'priority': got a string"));
  inference::ModelInferRequest rows = PixelsRequest({1, 2});
  (*rows.mutable_parameters())["pooling"].set_string_param("none");
  ExpectInvalid(rows, HasSubstr("want a batch of 1, got 2"));
}

TEST_F(InferErrorsTest, ModelsAndVersions) {
  ServeOne();
  inference::ModelInferRequest request = PixelsRequest({1});
  request.set_model_name("nope");
  ExpectError(request, grpc::NOT_FOUND, HasSubstr("'nope'; there is: 'puppet'"));
  request.set_model_name("puppet");
  request.set_model_version("2");
  ExpectError(request, grpc::NOT_FOUND, HasSubstr("serves version 1, and not '2'"));
}

TEST_F(InferErrorsTest, MoreHeadersThanAnyRequestNeeds) {
  ServeOne();
  inference::ModelInferRequest request = PixelsRequest({1});
  for (int i = 0; i < 100'000; ++i) (*request.mutable_parameters())[absl::StrCat("parameter ", i)].set_bool_param(true);
  ExpectInvalid(request, AllOf(HasSubstr("names, shapes and parameters"), HasSubstr("the limit is 1048576")));
}

TEST_F(InferErrorsTest, AResultThatIsNotFiniteIsInternal) {
  ServeOne();
  ExpectError(PixelsRequest({1, PuppetEngine::kNotFinite}), grpc::INTERNAL, StartsWith("input 1: "));
}

TEST_F(InferErrorsTest, AFullQueueSaysWhenToTryAgain) {
  PuppetEngine* const engine = ServeOne({.max_batch_tokens = 8, .max_input_tokens = 8, .max_queue_tokens = 8});
  engine->Hold();
  InFlight calls(stub_.get());
  calls.Start(EmbedOf({1}));
  engine->AwaitEntered(1);
  calls.Start(EmbedOf({2}));
  while (models()[0]->waiting_tokens() == 0) std::this_thread::yield();
  const Inferred answer = Infer(PixelsRequest({3}));
  EXPECT_EQ(answer.status.error_code(), grpc::RESOURCE_EXHAUSTED) << answer.status.error_message();
  EXPECT_EQ(answer.trailers.count("grpc-retry-pushback-ms"), 1u);
  engine->Release();
}

}  // namespace
}  // namespace lion
