#include "daemon/cli/number_option.hpp"

#include <charconv>
#include <cmath>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "config/name_list.hpp"

namespace flyball::cli {
namespace {

// 0.5 as "0.5", 2 as "2".
std::string short_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class T>
bool is_all(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [at, bad] = std::from_chars(text.data(), end, value);
  return bad == std::errc() && at == end;
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  return {[least, most, range](const std::string& text) {
            std::uint64_t value = 0;
            if (is_all(text, value) && value >= least && value <= most) return std::string();
            return config::quoted(text) + " is no whole number from " + range;
          },
          range, ""};
}

CLI::Validator number(double least, double most, bool least_excluded) {
  const std::string range =
      (least_excluded ? "above " + short_text(least) + ", at most " : short_text(least) + " to ") +
      short_text(most);
  const std::string wanted = (least_excluded ? "" : "from ") + range;
  return {[least, most, least_excluded, wanted](const std::string& text) {
            double value = 0;
            if (is_all(text, value) && std::isfinite(value) && value <= most &&
                (least_excluded ? value > least : value >= least))
              return std::string();
            return config::quoted(text) + " is no number " + wanted;
          },
          range, ""};
}

}  // namespace flyball::cli
