// The real thing, small: synthetic files through make_local_backend on the CPU device.
#include "backends/local/local_backend.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "backends/model/synthetic.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

class LocalBackend : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto spec =
        model::parse_synthetic_shape("dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=512,context=256")
            .value();
    spec.type = kernels::DType::q8_0;
    path_ = std::filesystem::temp_directory_path() /
            ("flyball_engine_test_" + std::to_string(getpid()) + ".gguf");
    ASSERT_TRUE(model::write_synthetic_file(spec, path_, 1));
  }
  static void TearDownTestSuite() { std::filesystem::remove(path_); }

  static local::LocalBackendOptions options() {
    local::LocalBackendOptions o;
    o.model_id = "tiny";
    o.path = path_;
    o.threads = 2;
    return o;
  }
  static std::unique_ptr<Backend> make(const local::LocalBackendOptions& o) {
    auto backend = local::make_local_backend(o);
    EXPECT_TRUE(backend) << backend.error().message;
    return backend ? std::move(*backend) : nullptr;
  }

  static inline std::filesystem::path path_;
};

const char* const kPrompts[] = {"Hello", "The quick brown fox jumps over the lazy dog, and then",
                                "a b c d e f g", "Why?", "One more prompt, to have some that wait."};

CompletionRequest request(const char* prompt) {
  auto r = text_request(prompt, 40);
  r.ignore_eos = true;
  return r;
}

std::string alone(Backend& backend, CompletionRequest r) {
  auto client = std::make_shared<Client>();
  auto ticket = backend.start(std::move(r), client).value();
  EXPECT_TRUE(client->wait_end());
  EXPECT_FALSE(client->error()) << client->error()->message;
  return client->text();
}

TEST_F(LocalBackend, DescribesItself) {
  auto backend = make(options());
  const BackendInfo& info = backend->info();
  EXPECT_EQ(info.backend, "cpu");
  EXPECT_EQ(info.model, "tiny");
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.quantization, "Q8_0");
  EXPECT_EQ(info.context_length, 256U);
  EXPECT_EQ(info.vocab_size, 512U);
  EXPECT_EQ(info.max_sequences, 8U);
  EXPECT_TRUE(info.has_chat_template);
  EXPECT_GT(info.weight_bytes, 0U);
  EXPECT_GT(info.kv_bytes, 0U);
  EXPECT_GT(info.scratch_bytes, 0U);
  EXPECT_EQ(backend->load().kv_blocks_total, 8U * 256 / 16);
}

// Batched, chunked, preempted, on one thread or two: the text is the same.
TEST_F(LocalBackend, TheAnswerDoesNotDependOnTheCompany) {
  auto quiet = options();
  quiet.threads = 1;
  auto reference = make(quiet);
  std::vector<std::string> expected;
  for (const char* prompt : kPrompts) expected.push_back(alone(*reference, request(prompt)));
  EXPECT_FALSE(expected[0].empty());

  auto busy = options();
  busy.step_tokens = 5;
  busy.max_sequences = 4;
  busy.kv_blocks = 9;  // of 16 positions: too few for three at full length
  auto backend = make(busy);
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (const char* prompt : kPrompts) {
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(backend->start(request(prompt), clients.back()).value());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(clients[i]->wait_end());
    EXPECT_EQ(clients[i]->text(), expected[i]) << kPrompts[i];
  }
  backend->drain(std::chrono::steady_clock::now() + std::chrono::seconds(5));
  EXPECT_EQ(backend->load().kv_blocks_used, 0U);
}

TEST_F(LocalBackend, ResumesWhereAnotherProcessStopped) {
  auto first = make(options());
  auto whole = std::make_shared<Client>();
  auto ticket = first->start(request(kPrompts[1]), whole).value();
  ASSERT_TRUE(whole->wait_end());
  const auto tokens = whole->tokens();
  std::string delivered;
  for (std::size_t i = 0; i < 17; ++i) delivered += whole->deltas()[i].text;
  auto r = request(kPrompts[1]);
  r.resume_tokens.assign(tokens.begin(), tokens.begin() + 17);
  r.resume_text_bytes = delivered.size();
  auto second = make(options());
  EXPECT_EQ(delivered + alone(*second, std::move(r)), whole->text());
}

TEST_F(LocalBackend, Chats) {
  auto backend = make(options());
  CompletionRequest r = text_request("", 8);
  r.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"hi"}])"), {}, {}, true};
  auto client = std::make_shared<Client>();
  auto ticket = backend->start(std::move(r), client).value();
  ASSERT_TRUE(client->wait_end());
  ASSERT_TRUE(client->done()) << client->error()->message;
  EXPECT_GT(client->done()->usage.prompt_tokens, 3U);
  EXPECT_GT(client->done()->timings.prefill_us, 0U);
}

// The file has no template of its own, and ChatML has no place for tools: an answer would be given without
// them.
TEST_F(LocalBackend, RefusesToolsThatItsTemplateWouldDrop) {
  auto backend = make(options());
  CompletionRequest r = text_request("", 8);
  r.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"hi"}])"),
                        test::packed(R"([{"type":"function","function":{"name":"f"}}])"),
                        {},
                        true};
  auto client = std::make_shared<Client>();
  auto ticket = backend->start(std::move(r), client).value();
  ASSERT_TRUE(client->wait_end());
  ASSERT_TRUE(client->error());
  EXPECT_EQ(client->error()->code, ErrorCode::unsupported_feature);
  EXPECT_EQ(client->error()->param, "tools");
}

TEST_F(LocalBackend, RefusesWhatItCannotDo) {
  const auto code = [](const local::LocalBackendOptions& o) {
    auto backend = local::make_local_backend(o);
    return backend ? ErrorCode::internal : backend.error().code;
  };
  auto o = options();
  o.backend = "abacus";
  EXPECT_EQ(code(o), ErrorCode::unsupported_value);
  o = options();
  o.path = "/nowhere/model.gguf";
  EXPECT_EQ(code(o), ErrorCode::io_error);
  o = options();
  o.context = 257;
  EXPECT_EQ(code(o), ErrorCode::invalid_value);
  o = options();
  o.max_sequences = 0;
  EXPECT_EQ(code(o), ErrorCode::invalid_value);
  o = options();
  o.kv_type = "q4_0";
  EXPECT_EQ(code(o), ErrorCode::unsupported_value);
  o = options();
  o.kv_type = "q8_0";  // heads of 16 values
  EXPECT_EQ(code(o), ErrorCode::unsupported_value);
  o = options();
  o.kv_bytes_limit = 1000;
  EXPECT_EQ(code(o), ErrorCode::insufficient_memory);
}

}  // namespace
}  // namespace flyball::test
