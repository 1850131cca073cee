#include "daemon/http/cross_origin.hpp"

#include <algorithm>

namespace flyball::http {

bool CrossOrigin::allows(std::string_view origin) const {
  return !origin.empty() && std::ranges::find(origins_, origin) != origins_.end();
}

std::vector<Field> CrossOrigin::answer_fields(std::string_view origin) const {
  if (origins_.empty()) return {};
  std::vector<Field> out{{"Vary", "Origin"}};
  if (allows(origin)) {
    out.push_back({"Access-Control-Allow-Origin", std::string(origin)});
    out.push_back({"Access-Control-Expose-Headers", "*"});
  }
  return out;
}

bool CrossOrigin::is_preflight(const Request& head) const {
  return head.method == "OPTIONS" && !head.field("Access-Control-Request-Method").empty() &&
         allows(head.field("Origin"));
}

Response preflight_answer(const Request& head, std::string_view methods) {
  Response out;
  out.status = 204;
  out.content_type.clear();
  out.fields = {{"Access-Control-Allow-Methods", std::string(methods)},
                // The asterisk covers every field but Authorization (Fetch standard, section 3.2.3). No
                // origin is allowed credentials, which would make it a name as any other.
                {"Access-Control-Allow-Headers", "Authorization, *"},
                {"Access-Control-Max-Age", "7200"}};  // seconds; Chrome keeps a preflight's answer no longer
  if (head.field("Access-Control-Request-Private-Network") == "true")
    out.fields.push_back({"Access-Control-Allow-Private-Network", "true"});
  return out;
}

}  // namespace flyball::http
