#include "daemon/http/host_policy.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "daemon/http/message.hpp"

namespace flyball::http {
namespace {

bool is_ip_literal(const std::string& host) {
  unsigned char bytes[16];
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    return inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), bytes) == 1;
  return inet_pton(AF_INET, host.c_str(), bytes) == 1;
}

// Splits off ":port", whose number may be absent (RFC 3986, section 3.2.3). False where the rest is no host
// or the port no number.
bool strip_port(std::string_view& host) {
  const auto bracket = host.rfind(']');
  const auto colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const std::string_view port = host.substr(colon + 1);
    if (port.size() > 5) return false;
    if (!std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
    host = host.substr(0, colon);
  }
  return !host.empty();
}

// A name as the configuration has it, in the form that allows() compares: "box:8080" is box, "fd00::1" is
// [fd00::1].
std::string without_port(std::string_view name) {
  unsigned char bytes[16];
  if (inet_pton(AF_INET6, std::string(name).c_str(), bytes) == 1) return "[" + std::string(name) + "]";
  std::string_view host = name;
  return std::string(strip_port(host) ? host : name);
}

}  // namespace

HostPolicy::HostPolicy(const config::Config& config) : names_{"localhost", "127.0.0.1", "[::1]"} {
  for (const auto& listener : config.listeners) {
    if (listener.kind != config::Listener::Kind::tcp) continue;
    if (listener.address == "0.0.0.0" || listener.address == "::") any_address_ = true;
    const bool v6 = listener.address.find(':') != std::string::npos;
    names_.push_back(v6 ? "[" + listener.address + "]" : listener.address);
  }
  for (const std::string& allowed : config.allowed_hosts) names_.push_back(without_port(allowed));
}

bool HostPolicy::allows(std::string_view host) const {
  if (!strip_port(host)) return false;
  for (const auto& name : names_)
    if (equals_ignoring_case(name, host)) return true;
  return any_address_ && is_ip_literal(std::string(host));
}

}  // namespace flyball::http
