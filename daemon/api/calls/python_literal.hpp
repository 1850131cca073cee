// Lists and dicts as Python prints them: {'a': [True, None]}. Models write them where the template that they
// learned from printed an argument so. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flyball::api::calls {

// The JSON of a list or dict of strings, numbers, True, False and None; of JSON itself, too. nullopt: the
// text is something else. Linear in the text.
std::optional<std::string> json_of_python(std::string_view text);

}  // namespace flyball::api::calls
