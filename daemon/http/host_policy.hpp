// Which Host values are served over TCP: the defence against DNS rebinding, checked before routing and keys.
// No browser reaches a unix socket, and its clients have no host to name: it takes any Host or none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace flyball::http {

class HostPolicy {
 public:
  explicit HostPolicy(const config::Config& config);
  // "name", "name:", "name:port", "1.2.3.4:80", "[::1]:80". False for anything else, the empty value
  // included.
  bool allows(std::string_view host) const;

 private:
  std::vector<std::string> names_;  // lower case, without port; IPv6 in brackets
  bool any_address_ = false;  // a listener is bound to all addresses: IP literals are served, names are not
};

}  // namespace flyball::http
