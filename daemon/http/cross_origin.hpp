// CORS: which web pages may read the daemon's answers (Fetch standard, section 3.2). A browser asks before a
// page of another origin sends a body or a key (a preflight), and keeps every answer from the page that does
// not name the page's origin.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "daemon/http/message.hpp"

namespace flyball::http {

class CrossOrigin {
 public:
  explicit CrossOrigin(const config::Config& config) : origins_(config.allowed_origins) {}

  // The fields of every answer to a request with this Origin field, "" where there is none. A configured
  // origin, byte for byte, gets all of them, and other requests get Vary alone: answers differ by the field,
  // and a cache must not give one page's answer to another. None where no origin is configured.
  std::vector<Field> answer_fields(std::string_view origin) const;
  // Whether `head` is a preflight of a configured origin.
  bool is_preflight(const Request& head) const;

 private:
  bool allows(std::string_view origin) const;

  std::vector<std::string> origins_;
};

// The answer to a preflight of a path that takes `methods` ("GET, HEAD"), without the fields that every
// answer has.
Response preflight_answer(const Request& head, std::string_view methods);

}  // namespace flyball::http
