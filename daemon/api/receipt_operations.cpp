#include "daemon/api/receipt_operations.hpp"

#include <string>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "daemon/api/slo_fields.hpp"
#include "daemon/api/views.hpp"
#include "policy/fact_json.hpp"

namespace flyball::api {

void ReceiptOperations::run(const Call& call, Explain question) {
  if (const auto known = check_fields(*call.app, question.unknown); !known)
    return responder_.answer(call, pass(known));
  if (const auto read = read_slo_fields(call.exchange->request(), question.traits); !read)
    return responder_.answer(call, pass(read));
  std::vector<policy::NamedFact> overrides;
  for (const auto& [name, value] : question.facts) {
    auto fact = policy::read_fact(name, value, *call.state->settings->tree->targets);
    if (!fact) {
      fact.error().param = "facts." + name.substr(0, 100);
      return responder_.answer(call, pass(fact));
    }
    overrides.push_back(std::move(*fact));
  }
  auto model = call.state->apps.model_for(*call.app, question.traits.model_as_asked);
  if (!model) return responder_.answer(call, pass(model));
  const BackendInfo* const file = call.state->settings->file_of(*model->entry);
  question.traits.model_as_asked = std::string(model->name);
  const route::JobSpec spec{.id = call.exchange->id(),
                            .keep = call.state,
                            .tree = *call.state->settings->tree,
                            .app = *call.app,
                            .model = *model->entry,
                            .traits = std::move(question.traits),
                            .base = {},
                            .prompts = {},
                            .ignored_fields = question.unknown.listed(),
                            .file = file,
                            .measured = &call.state->settings->measured};
  const route::Receipt receipt = service_.dispatcher.explain(spec, overrides);
  http::Response out = receipt_view(receipt, is_operator(call));
  out.fields.push_back({"x-flyball-route", receipt.summary()});
  responder_.answer(call, std::move(out));
}

void ReceiptOperations::run(const Call& call, FindReceipt operation) {
  const std::string& id = operation.request_id;
  const std::string& app = call.app->id;
  if (const auto recent = service_.dispatcher.receipts().find(id, app))
    return responder_.answer(call, receipt_view(*recent, is_operator(call)));
  const auto lookup = std::make_shared<Call>(call);
  lookups_.insert(lookup);
  // The writer's thread looks, behind what it has still to write or cannot; this one goes on meanwhile.
  const bool looks = service_.receipt_store.find(
      id, app,
      [this, weak = std::weak_ptr(lookup),
       &context = service_.io](Result<std::optional<route::Receipt>> receipt) {
        boost::asio::post(context, [this, weak, receipt = std::move(receipt)]() mutable {
          if (const auto asked = weak.lock()) found(asked, std::move(receipt));
        });
      });
  if (looks) return;
  if (service_.store == nullptr) return found(lookup, std::nullopt);
  found(lookup, fail(ErrorCode::overloaded, "Too many receipts are being looked for in the store already."));
}

void ReceiptOperations::found(const std::shared_ptr<Call>& lookup,
                              Result<std::optional<route::Receipt>> receipt) {
  Result<http::Response> out =
      fail(ErrorCode::not_found, "There is no receipt of this app with that request id.");
  if (!receipt)
    out = pass(receipt);
  else if (*receipt)
    out = receipt_view(**receipt, is_operator(*lookup));
  responder_.answer(*lookup, std::move(out));
  lookups_.erase(lookup);
}

}  // namespace flyball::api
