// New files among the operator's own, and the words in them.
#pragma once

#include <filesystem>
#include <string>

#include "config/error.hpp"

namespace flyball::cli {

// Makes `file`, and its folder where that is absent, readable by every user: the daemon may run as another
// one, and neither holds a secret. io_error: it cannot be written, or is there already, with `taken` as the
// remedy.
Result<void> write_new(const std::filesystem::path& file, const std::string& text, const std::string& taken);

// The name of an id's file, without its extension: an id may hold characters that divide paths.
// "scripts/nightly" becomes "scripts-nightly".
std::string file_stem(std::string id);

// unsupported_value with `what` in Error::param: no id that a file of the operator's may hold (config::id()).
Result<void> check_id(const std::string& id, const char* what);
// An id as YAML reads it back: quoted where YAML would take it for something else ("null", "on", "con:").
std::string yaml_id(const std::string& id);
// Any UTF-8 text without control characters, in single quotes.
std::string yaml_quoted(const std::string& text);

// One word of a POSIX shell, whatever it holds.
std::string shell_word(const std::string& text);

}  // namespace flyball::cli
