// The operations that clients ask for, whatever API they speak: a codec parses a request into one Operation,
// the service carries it out. Each operation brings the way its answer is written in that API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/backend.hpp"
#include "config/capabilities.hpp"
#include "config/config.hpp"
#include "daemon/api/answer.hpp"
#include "daemon/api/call_constraint.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/tool_set.hpp"
#include "daemon/http/message.hpp"
#include "daemon/predict/prefix_blocks.hpp"
#include "daemon/route/facts.hpp"

namespace flyball::api {

// The constants of one answer, which all its parts may repeat.
struct AnswerHead {
  std::string_view request_id;  // "req-0011223344556677"
  std::int64_t created = 0;     // seconds since the epoch
  std::string_view model;       // as the client named it, or its id
  std::size_t choices = 1;
  std::uint32_t context = 0;  // tokens that one sequence of the model may hold; 0: not known
};

// How a client makes an answer smaller that its app may not hold, in the API's own terms.
struct Remedy {
  std::string_view field = "max_tokens";  // the param of the error
  std::string_view advice = "Stream it, or ask for fewer tokens, choices or top_logprobs.";
};

// Writes one answer in an API's own words: streamed by write(), or whole.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void begin(const AnswerHead& head) = 0;  // once, first; copies what it needs
  // Writes the payloads for one batch of events of a choice. The last one of an answer ends with Ended
  // or is Failed alone: the writer then adds whatever ends a stream of its API.
  virtual void write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) = 0;
  // The one document of an answer that is not streamed: appends its next piece, at least a byte and about
  // http::BodySource::kPieceBytes. False: it was the last. Choices that the document no longer needs may be
  // emptied.
  virtual bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) = 0;
  // Bytes of memory that grow with the request, or with a stream that ends by repeating its answer, as they
  // will be when the writer has written `events`, too. The app's held bytes are charged with them until the
  // client has read all.
  virtual std::size_t bytes(std::span<const AnswerEvent>) const { return 0; }
  virtual Remedy remedy() const noexcept { return {}; }
};

// The fields of a request that its API does not know. The service refuses such a request, unless the manifest
// of its app accepts them.
class UnknownFields {
 public:
  static constexpr std::size_t kNamed = 16;        // the first ones by name
  static constexpr std::size_t kPlaceBytes = 100;  // a longer place is cut
  static constexpr std::size_t kAllBytes = 512;    // of all places

  // The field `name` of the object at `object` ("": the body). `refuse` returns the error for it, whose param
  // is set here; it is called for the first field alone.
  template <class Refuse>
  void add(std::string_view object, std::string_view name, Refuse refuse) {
    ++count_;
    if (places_.size() < kNamed && bytes_ < kAllBytes) {
      places_.push_back(place(object, name));
      bytes_ += places_.back().size();
    }
    if (refusal_) return;
    refusal_ = refuse();
    refusal_->param = places_.front();
  }
  const std::vector<std::string>& places() const noexcept { return places_; }  // "messages[0].contnet"
  const std::optional<Error>& refusal() const noexcept { return refusal_; }    // nullopt: there is none
  // For the receipt, which is kept: the places, a name that is none as "(not a name)", and behind those that
  // are listed "and 3 more".
  std::vector<std::string> listed() const;

 private:
  static std::string place(std::string_view object, std::string_view name);

  std::size_t count_ = 0, bytes_ = 0;
  std::vector<std::string> places_;
  std::optional<Error> refusal_;
};

struct Generate {
  enum class Kind : std::uint8_t { chat, completion };

  Kind kind = Kind::chat;
  std::string model;                    // as the client wrote it; "" if absent
  std::optional<StreamFraming> stream;  // nullopt: one document
  bool seeded = false;                  // the client gave a seed
  bool has_tools = false, wants_json = false;
  std::uint32_t n = 1;          // answers per prompt
  std::vector<Prompt> prompts;  // one for chat
  // One for each prompt as its model reads it, if another thread has taken them; else empty.
  std::vector<std::shared_ptr<const predict::PromptPrint>> prints;
  std::string constraint_field;  // the place of base.constraint in the body, in the API's own terms
  CompletionRequest base;        // all but id and prompt; its seed is the first choice's
  std::uint64_t prompt_bytes = 0;
  std::string note;  // what the client should know of how it was read (x-flyball-note); "": nothing
  UnknownFields unknown;
  std::unique_ptr<AnswerWriter> writer;
  std::shared_ptr<const ToolSet> tools;  // null: none
  bool tools_in_system_message = false;  // the prompt is as tell_tools() wrote it
  MakeParser parser;                     // empty: everything is text
  // Makes the constraint of calls for a model whose answers have this form. Beside a format of the client's
  // it allows calls or the format's JSON. nullopt: the client leaves the answers free. Empty: it always does.
  std::function<Result<std::optional<CallConstraint>>(const AnswerForm&, const JsonAnswer&)> call_constraint;
  std::vector<SchemaPlace> schema_places;  // of the schemas in that constraint, until it is compiled

  std::size_t choices() const noexcept { return prompts.size() * n; }
};
const char* to_string(Generate::Kind kind) noexcept;  // "chat", "completion"
// The policy's view of the request. The caller, who knows the models, takes the default tag off
// model_as_asked (config::named_model).
route::RequestTraits traits_of(const Generate& request);

struct ListedModel {
  const config::ModelEntry* entry;
  std::string unavailable;  // why no engine can serve it; "": one can, as far as it is known
  std::string digest;       // BackendInfo::digest of the loaded file; "": none is, or engines differ in it
  config::ModelTraits traits;
  std::uint32_t context = 0;          // tokens that one sequence may hold; 0: not known
  const BackendInfo* file = nullptr;  // what the model's file says of itself; nullptr: not known
  bool loaded = false;                // an engine has loaded it; the members below are of such a model
  std::uint64_t held_bytes = 0;       // that its engines hold; 0: not known
  std::uint64_t device_bytes = 0;     // of them those on devices
  // When the last of its engines ends for want of work, in seconds since the epoch; nullopt: never.
  std::optional<std::int64_t> expires_at = {};
};
struct ListModels {  // those that the app may use
  http::Response (*answer)(std::span<const ListedModel> models, std::int64_t created);
};
struct Tell {  // an answer that the codec knows by itself
  http::Response answer;
};
struct ShowModel {
  std::string name;  // id or alias
  UnknownFields unknown = {};
  http::Response (*answer)(const ListedModel& model, std::int64_t created);
};

// The daemon's own (daemon/api/native).
struct TellHealth {};
struct TellReadiness {};
struct TellMetrics {};
struct Explain {
  route::RequestTraits traits;
  std::vector<std::pair<std::string, nlohmann::json>> facts;  // instead of those found, by name
  UnknownFields unknown;
};
struct FindReceipt {
  std::string request_id;
};
struct ListEngines {};
struct ListPrefixes {};  // of the app, or of all where the operator asks
struct LoadModel {
  std::string model;   // id or alias
  std::string engine;  // an engine kind's id; "": those that `preload` would load it on
};
struct Unloaded {
  std::string_view asked, id;            // the model, as the client named it, and its id
  std::span<const std::string> engines;  // the engine kinds that had loaded it
  std::int64_t at = 0;                   // seconds since the epoch
};
// The operator's. Where an app has the route, too, it gets `unless_operator`.
struct UnloadModel {
  std::string model;   // id or alias
  std::string engine;  // an engine kind's id; "": all
  http::Response (*answer)(const Unloaded&);
  UnknownFields unknown = {};
  Error unless_operator = {};
};

using Operation = std::variant<Generate, ListModels, ShowModel, Tell, TellHealth, TellReadiness, TellMetrics,
                               Explain, FindReceipt, ListEngines, ListPrefixes, LoadModel, UnloadModel>;

}  // namespace flyball::api
