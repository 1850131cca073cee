// The tools of a response that stand in a namespace: "lookup" of "crm" for the client, "crm.lookup" for the
// model.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace flyball::api::openai::responses {

class Namespaces {
 public:
  struct Name {
    std::string_view space;  // "": the tool stands in none
    std::string_view name;
  };

  static std::string joined(Name name) {
    std::string out(name.space);
    if (!out.empty()) out.push_back('.');
    return out.append(name.name);
  }

  // The joined name of a tool that the request declares, which lives as long as this.
  std::string_view add(Name name) {
    return space_bytes_.insert_or_assign(joined(name), name.space.size()).first->first;
  }
  std::size_t size() const noexcept { return space_bytes_.size(); }
  // The memory that the names take.
  std::size_t bytes() const noexcept {
    std::size_t out = 0;
    for (const auto& [name, space] : space_bytes_) out += kNodeBytes + name.size();
    return out;
  }
  // Views of `called`, a name that the model wrote. The name of a tool outside may have a dot, too.
  Name split(std::string_view called) const {
    const auto found = space_bytes_.find(called);
    if (found == space_bytes_.end()) return {{}, called};
    return {called.substr(0, found->second), called.substr(found->second + 1)};
  }

 private:
  static constexpr std::size_t kNodeBytes = 96;  // of the map, and what malloc adds to it and to the name

  // The length of each tool's namespace, by the tool's joined name.
  std::map<std::string, std::size_t, std::less<>> space_bytes_;
};

}  // namespace flyball::api::openai::responses
