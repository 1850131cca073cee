#include "config/operator_access.hpp"

namespace flyball::config {

const std::vector<Bound<OperatorAccess>>& operator_table() {
  static const std::vector<Bound<OperatorAccess>> table = {
      {{"key", key_source(), "where the operator's key is read from; one of file, env and credential"},
       [](OperatorAccess&, const Node&) {}},  // add_key: it may fail
      {{"key_sha256", key_digests(), "SHA-256 of the operator's key, or of several"},
       [](OperatorAccess& o, const Node& n) { o.keys = as_digests(n); }},
      {{"loopback", boolean(),
        "whether requests from this machine that carry no key are the operator's; without it as "
        "loopback_without_key"},
       [](OperatorAccess& o, const Node& n) { o.loopback = as_bool(n); }},
  };
  return table;
}

}  // namespace flyball::config
