// Texts in `lion classify`, `embed` and `similar`; `lion fill-mask` and `tokenize`.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/client/command_line.h"

namespace lion {
namespace {

using ::lion::testing::CommandLineTest;
using ::lion::testing::Outcome;
using ::lion::testing::ReadFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The text model of the fake server: a text's vector is [its bytes, 1], its label the text, its mask's token "cat"; its
// tokens are its bytes. "bad" and "" are refused.
class CommandLineTextTest : public CommandLineTest {
 protected:
  CommandLineTextTest() {
    handlers_.embed = [this](grpc::ServerContext&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
      Record(request, last_embed_);
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        result->set_tokens(3);
        result->set_truncated(input.text() == "long");
        if (Refuse(input, *result)) continue;
        const float values[2] = {static_cast<float>(TextOf(input).size()), 1.0f};
        result->mutable_embedding()->set_rows(1);
        result->mutable_embedding()->set_dimensions(2);
        result->mutable_embedding()->set_data(values, sizeof(values));
      }
      return grpc::Status::OK;
    };
    handlers_.classify = [this](grpc::ServerContext&, const v1::ClassifyRequest& request,
                                v1::ClassifyResponse& response) {
      Record(request, last_classify_);
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        result->set_tokens(3);
        if (Refuse(input, *result)) continue;
        auto* score = result->mutable_classification()->add_scores();
        score->set_label(TextOf(input));
        score->set_score(0.75f);
      }
      return grpc::Status::OK;
    };
    handlers_.fill_mask = [this](grpc::ServerContext&, const v1::FillMaskRequest& request,
                                 v1::FillMaskResponse& response) {
      Record(request, last_fill_mask_);
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        result->set_tokens(3);
        if (Refuse(input, *result)) continue;
        auto* mask = result->mutable_filled()->add_masks();
        mask->set_position(2);
        auto* prediction = mask->add_predictions();
        prediction->set_id(7);
        prediction->set_token("cat");
        prediction->set_probability(0.5f);
      }
      return grpc::Status::OK;
    };
    handlers_.tokenize = [this](grpc::ServerContext&, const v1::TokenizeRequest& request,
                                v1::TokenizeResponse& response) {
      Record(request, last_tokenize_);
      for (const v1::Input& input : request.inputs()) {
        auto* result = response.add_results();
        if (Refuse(input, *result)) continue;
        for (size_t i = 0; i < input.text().size(); ++i) {
          auto* token = result->add_tokens();
          token->set_id(input.text()[i]);
          token->set_text(input.text().substr(i, 1));
          token->set_start_byte(i);
          token->set_end_byte(i + 1);
        }
      }
      return grpc::Status::OK;
    };
  }

  static std::string TextOf(const v1::Input& input) {
    return input.has_text_pair() ? input.text_pair().first() + "|" + input.text_pair().second() : input.text();
  }

  template <typename Result>
  static bool Refuse(const v1::Input& input, Result& result) {
    const std::string text = TextOf(input);
    if (text != "bad" && !text.empty()) return false;
    result.mutable_error()->set_code(3);
    result.mutable_error()->set_message("refused");
    return true;
  }

  // Requests of a stream come on several threads.
  template <typename Request>
  void Record(const Request& request, Request& last) {
    const std::lock_guard lock(mutex_);
    ++requests_;
    last = request;
  }

  std::mutex mutex_;
  int requests_ = 0;
  v1::FillMaskRequest last_fill_mask_;
  v1::TokenizeRequest last_tokenize_;
};

TEST_F(CommandLineTextTest, EmbedTakesTextsOfTheCommandLineAndOfFiles) {
  folder_.Write("lines.txt", "one\nlong\r\n");
  const Outcome outcome = Run("embed --text a --file lines.txt --text bb --file -", "from stdin\n");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, R"({"index":0,"source":"--text","embedding":[1,1],"tokens":3,"truncated":false})"
                         "\n"
                         R"({"index":1,"source":"--text","embedding":[2,1],"tokens":3,"truncated":false})"
                         "\n"
                         R"({"index":2,"source":"lines.txt","line":1,"embedding":[3,1],"tokens":3,"truncated":false})"
                         "\n"
                         R"({"index":3,"source":"lines.txt","line":2,"embedding":[4,1],"tokens":3,"truncated":true})"
                         "\n"
                         R"({"index":4,"source":"stdin","line":1,"embedding":[10,1],"tokens":3,"truncated":false})"
                         "\n");
  EXPECT_TRUE(last_embed_.options().partial_results());
}

TEST_F(CommandLineTextTest, ATextIsTakenAsItIs) {
  const Outcome outcome =
      Run(R"(embed --text '[MASK]' --text -5 --text=--file --text '{}' --text 'a,b' --dimensions 0)");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  ASSERT_EQ(last_embed_.inputs_size(), 5);
  const char* const want[] = {"[MASK]", "-5", "--file", "{}", "a,b"};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(last_embed_.inputs(i).text(), want[i]);
}

TEST_F(CommandLineTextTest, ImagesAndTextsShareARun) {
  folder_.Write("7.png", "7");
  const Outcome outcome = Run("classify --text good 7.png --model m --truncation start");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.err, "lion: 7.png: INVALID_ARGUMENT: refused\n");  // a text model takes no image
  EXPECT_EQ(outcome.out, "good   good  75.0 %\n");
  ASSERT_EQ(last_classify_.inputs_size(), 2);
  EXPECT_EQ(last_classify_.inputs(0).image(), "7");
  EXPECT_EQ(last_classify_.inputs(1).text(), "good");
  EXPECT_EQ(last_classify_.model(), "m");
  EXPECT_EQ(last_classify_.options().truncation(), v1::TRUNCATION_START);
}

TEST_F(CommandLineTextTest, ErrorsNameFileAndLineAndTheOtherLinesGoOn) {
  folder_.Write("lines.txt", "a\nbad\n\nx\xff\nb\n");
  const Outcome outcome = Run("classify --file lines.txt --file gone.txt --text bad");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out, "lines.txt:1   a  75.0 %\nlines.txt:5   b  75.0 %\n");
  EXPECT_EQ(outcome.err,
            "lion: --text 1: INVALID_ARGUMENT: refused\n"
            "lion: lines.txt:2: INVALID_ARGUMENT: refused\n"
            "lion: lines.txt:3: INVALID_ARGUMENT: refused\n"
            "lion: lines.txt:4: INVALID_ARGUMENT: the text is not UTF-8: byte 1 is 0xff, which begins no character\n"
            "lion: gone.txt: NOT_FOUND: cannot open the file: No such file or directory\n");
}

TEST_F(CommandLineTextTest, EmptyLinesAreSkippedWhenAskedAndCounted) {
  folder_.Write("lines.txt", "a\n\n \nb\n");
  const Outcome outcome = Run("embed --file lines.txt --skip-empty --output v.npy");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "lion: 2 empty lines were skipped\n");
  EXPECT_THAT(ReadFile(folder_.Path("v.npy")), HasSubstr("'shape': (2, 2)"));
}

TEST_F(CommandLineTextTest, ARowOfTheArrayIsALineAsLongAsNoneFails) {
  folder_.Write("lines.txt", "a\nbb\nccc\n");
  ASSERT_EQ(Run("embed --file lines.txt --output v.npy").exit_status, 0);
  const float want[6] = {1, 1, 2, 1, 3, 1};
  EXPECT_EQ(ReadFile(folder_.Path("v.npy")).substr(128),
            std::string(reinterpret_cast<const char*>(want), sizeof(want)));
  folder_.Write("lines.txt", "a\nbad\n");
  const Outcome outcome = Run("embed --file lines.txt --output v.npy");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("lines.txt:2: INVALID_ARGUMENT"), HasSubstr("v.npy has 1 rows for 2 texts")));
}

TEST_F(CommandLineTextTest, PairsAreSplitAtTheTab) {
  folder_.Write("pairs.tsv", "a\tb c\nalone\n");
  const Outcome outcome = Run("classify --pairs --file pairs.tsv");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out, "pairs.tsv:1   a|b c  75.0 %\n");
  EXPECT_THAT(outcome.err, HasSubstr("pairs.tsv:2: INVALID_ARGUMENT: there are 0 tabs; expected one"));
}

TEST_F(CommandLineTextTest, ALargeFileTakesAStreamOfManyTextsACall) {
  std::string lines, want;
  for (int i = 0; i < 10'000; ++i) {
    absl::StrAppend(&lines, i, "\n");
    absl::StrAppend(&want, "lines.txt:", i + 1, "\n");
  }
  folder_.Write("lines.txt", lines);
  const Outcome outcome = Run("classify --file lines.txt");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 10'000);
  EXPECT_THAT(outcome.out, HasSubstr("\nlines.txt:9876   9875  75.0 %\n"));
  EXPECT_EQ(requests_, 157);  // of 64
  EXPECT_EQ(streams_, 1);
}

TEST_F(CommandLineTextTest, AnErrorThatMeetsEveryCallStopsTheReading) {
  std::string lines;
  for (int i = 0; i < 10'000; ++i) absl::StrAppend(&lines, i, "\n");
  folder_.Write("lines.txt", lines);
  handlers_.classify_stream = nullptr;
  handlers_.classify = [](grpc::ServerContext&, const v1::ClassifyRequest&, v1::ClassifyResponse&) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no classification head");
  };
  const Outcome outcome = Run("classify --file lines.txt");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.err,
            "lion: FAILED_PRECONDITION: no classification head\n"
            "lion: stopped: text files were not read to their end\n");
}

TEST_F(CommandLineTextTest, TheValueOfARegressionIsNoPercentage) {
  handlers_.get_model = [](const v1::GetModelRequest& request, v1::Model& model) {
    EXPECT_EQ(request.model(), "m");
    model.add_tasks("embed");
    model.add_tasks("regress");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run("classify --text good --model m").out, "good   good  0.7500\n");
}

TEST_F(CommandLineTextTest, FillMaskShowsTheSentences) {
  const Outcome outcome = Run("fill-mask --text 'the [MASK] sleeps' --text bad --top-k 1 --truncation end");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.out, "the [MASK] sleeps\n  2  cat  50.0 %  the cat sleeps\n");
  EXPECT_EQ(outcome.err, "lion: --text 2: INVALID_ARGUMENT: refused\n");
  EXPECT_EQ(last_fill_mask_.top_k(), 1u);
  EXPECT_EQ(last_fill_mask_.options().truncation(), v1::TRUNCATION_END);
  EXPECT_EQ(Run("fill-mask --json --text 'a [MASK]'").out,
            R"({"index":0,"source":"--text","masks":[{"position":2,"predictions":[)"
            R"({"id":7,"token":"cat","probability":0.5}]}],"tokens":3,"truncated":false})"
            "\n");
  EXPECT_EQ(last_fill_mask_.top_k(), 5u);
}

TEST_F(CommandLineTextTest, TokenizeShowsTheTokens) {
  const Outcome outcome = Run("tokenize --text ab --no-special-tokens --model m");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "ab\n  97  0-1  a\n  98  1-2  b\n");
  EXPECT_TRUE(last_tokenize_.no_special_tokens());
  EXPECT_TRUE(last_tokenize_.partial_results());
  EXPECT_EQ(last_tokenize_.model(), "m");
  EXPECT_EQ(Run("tokenize --json --file -", "a\nbad\n").out,
            R"({"index":0,"source":"stdin","line":1,"tokens":[)"
            R"({"id":97,"text":"a","start_byte":0,"end_byte":1,"type_id":0}]})"
            "\n"
            R"({"index":1,"source":"stdin","line":2,"error":{"code":"INVALID_ARGUMENT","message":"refused"}})"
            "\n");
  EXPECT_FALSE(last_tokenize_.no_special_tokens());
}

TEST_F(CommandLineTextTest, AFullQueueIsTriedAgainForMasksToo) {
  const auto answer = handlers_.fill_mask;
  int refused = 0;
  handlers_.fill_mask = [&](grpc::ServerContext& context, const v1::FillMaskRequest& request,
                            v1::FillMaskResponse& response) {
    if (refused++ > 0) return answer(context, request, response);
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "20");
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  };
  EXPECT_EQ(Run("fill-mask --text 'a [MASK]'").exit_status, 0);
  EXPECT_EQ(refused, 2);
}

TEST_F(CommandLineTextTest, SimilarComparesTwoTextsOrMore) {
  EXPECT_EQ(Run("similar --text a --text a").out, "1.000000\n");
  EXPECT_EQ(Run("similar --text a --text 7777777").out, "0.800000\n");
  EXPECT_EQ(Run("similar --text a --text 7777777 --text b").out,
            "                 1       2       3\n"
            "1  a        1.0000  0.8000  1.0000\n"
            "2  7777777  0.8000  1.0000  0.8000\n"
            "3  b        1.0000  0.8000  1.0000\n");
  EXPECT_EQ(Run("similar --json --text a --text 7777777 --text b").out,
            "{\"a\":\"a\",\"b\":\"7777777\",\"cosine\":0.8}\n"
            "{\"a\":\"a\",\"b\":\"b\",\"cosine\":1.0}\n"
            "{\"a\":\"7777777\",\"b\":\"b\",\"cosine\":0.8}\n");
  EXPECT_EQ(Run("similar --text a --text bad").err, "lion: --text 2: INVALID_ARGUMENT: refused\n");
}

TEST_F(CommandLineTextTest, UsageErrorsSayWhatIsMissing) {
  folder_.Write("7.png", "7");
  const std::pair<const char*, const char*> refused[] = {
      {"classify", "Images, --text or --file is required"},
      {"embed", "Images, --text or --file is required"},
      {"fill-mask", "--text or --file is required"},
      {"tokenize --json", "--text or --file is required"},
      {"similar --text a", "Two or more images or --text is required"},
      {"embed - --file -", "-: standard input can be read only once"},
      {"embed --file - --file -", "-: standard input can be read only once"},
      {"fill-mask 7.png", "The following argument was not expected: 7.png"},
      {"embed --text a --truncation middle", "--truncation: middle not in "},
      {"fill-mask --text a --top-k 0", "--top-k: Value 0 not in range "},
      {"embed --text", "--text: 1 required TEXT missing"}};
  for (const auto& [command, message] : refused) {
    const Outcome outcome = Run(command);
    EXPECT_EQ(outcome.exit_status, 2) << command;
    EXPECT_THAT(outcome.err, StartsWith(message)) << command;
  }
  EXPECT_EQ(requests_, 0);
}

}  // namespace
}  // namespace lion
