#include "daemon/api/operation.hpp"

#include "daemon/api/json_text.hpp"

namespace flyball::api {

std::vector<std::string> UnknownFields::listed() const {
  const auto is_name = [](const std::string& place) {
    return place.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.[]") ==
           std::string::npos;
  };
  std::vector<std::string> out;
  for (const std::string& place : places_) out.push_back(is_name(place) ? place : "(not a name)");
  if (count_ > out.size()) out.push_back("and " + std::to_string(count_ - places_.size()) + " more");
  return out;
}

std::string UnknownFields::place(std::string_view object, std::string_view name) {
  std::string out(object);
  if (!out.empty()) out.push_back('.');
  out.append(name.substr(0, cut_of_text(name, kPlaceBytes)));
  out.resize(cut_of_text(out, kPlaceBytes));
  return out;
}

const char* to_string(Generate::Kind kind) noexcept {
  return kind == Generate::Kind::chat ? "chat" : "completion";
}

route::RequestTraits traits_of(const Generate& request) {
  route::RequestTraits out;
  out.operation = to_string(request.kind);
  out.model_as_asked = request.model;
  out.prompt_bytes = request.prompt_bytes;
  out.max_tokens = request.base.max_tokens;
  out.n = request.n;
  out.stream = request.stream.has_value();
  out.has_tools = request.has_tools;
  out.wants_json = request.wants_json;
  return out;
}

}  // namespace flyball::api
