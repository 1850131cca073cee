// `keep` of a manifest: a beginning that the app's prompts share. Engines compute its KV once and evict it
// last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace flyball::config {

inline constexpr std::size_t kMaxKeptPrefixes = 16;                           // of one app
inline constexpr std::uint64_t kMaxKeptPrefixBytes = std::uint64_t{4} << 20;  // of one text
// All texts of a configuration: the daemon holds each once, and twice while a reload reads them.
inline constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{64} << 20;

struct KeptPrefix {
  enum class Role : std::uint8_t {
    system,  // the text is the whole system message that the app's chats begin with
    user,    // the first user message of the app's chats begins with the text
    prompt,  // the app's prompts of /v1/completions begin with the text
  };
  enum class Compute : std::uint8_t {
    load,       // as soon as an engine has loaded the model
    first_use,  // when the app's first request has gone to that engine
  };

  std::string name;  // map key
  Role role = Role::system;
  Compute compute = Compute::load;
  // Not empty, UTF-8. Null in a daemon's settings: the prompt that engines are asked for has it.
  std::shared_ptr<const std::string> text;
  std::filesystem::path file;               // that the text was read from; "": the manifest has it
  std::string model;                        // id or alias; "": the model of requests that name none
  std::string at;                           // where it stands: "scripts.yaml:4:3"
};

}  // namespace flyball::config
