// The patterns as the published tokenizer.json files of the families have them.
#include "backends/model/mlx_splits.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"

namespace flyball::model {
namespace {

using nlohmann::json;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::size_t kMaxParts = 64;                    // of a sequence; published ones have up to 5

// clang-format off
#define SUFFIX R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define REST R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define START R"([^\r\n\p{L}\p{N}]?)"
constexpr std::string_view kLlama3 = SUFFIX R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})" REST;
constexpr std::string_view kQwen2 = SUFFIX R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" REST;
constexpr std::string_view kTekken = START UPPER "*" LOWER "+|" START UPPER "+" LOWER "*"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// clang-format on
// Parts that are no regular expressions.
constexpr std::string_view kByteLevel = "ByteLevel", kDigits = "Digits";

struct Known {
  std::string_view pre;  // a name of backends/text's pre-tokenizers
  std::vector<std::string_view> parts;
  bool ignores_merges;
};
const Known* find_known(const std::vector<std::string>& parts, bool ignores_merges) {
  static const Known kKnown[] = {
      {"llama-bpe", {kLlama3}, true}, {"smaug-bpe", {kLlama3}, false},
      {"qwen2", {kQwen2}, false},     {"tekken", {kTekken}, true},
      {"gpt-2", {kByteLevel}, false}, {"smollm", {kDigits, kByteLevel}, false},
  };
  const auto* it = std::ranges::find_if(kKnown, [&](const Known& known) {
    return known.ignores_merges == ignores_merges && std::ranges::equal(known.parts, parts);
  });
  return it == std::end(kKnown) ? nullptr : it;
}

std::string type_of(const json& part) {
  const auto type = part.is_object() ? part.find("type") : part.end();
  return part.is_object() && type != part.end() && type->is_string() ? type->get<std::string>()
                                                                     : std::string();
}

// The parts of a "Sequence" under `field`, or the thing itself; none where it is absent.
Result<std::vector<MlxObject>> parts_of(const MlxObject& tokenizer, std::string_view field,
                                        std::string_view list) {
  std::vector<MlxObject> out;
  const auto whole = tokenizer.object(field);
  if (!whole) return pass(whole);
  if (!*whole) return out;
  if (type_of((*whole)->value()) != "Sequence") {
    out.push_back(**whole);
    return out;
  }
  const json* parts = (*whole)->find(list);
  if (parts == nullptr || !parts->is_array())
    return (*whole)->invalid(list, parts == nullptr ? "is missing" : "is " + shown(*parts) + ", not a list");
  if (parts->size() > kMaxParts)
    return (*whole)->invalid(
        list, "has " + std::to_string(parts->size()) + " parts, the limit is " + std::to_string(kMaxParts));
  for (const json& part : *parts) {
    if (!part.is_object()) return (*whole)->invalid(list, "holds something that is no object");
    out.emplace_back(part, tokenizer.file() + " " + std::string(field));
  }
  return out;
}

bool is_text(const json* value, std::string_view text) {
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == text;
}
bool is_flag(const json* value, bool flag, bool absent) {
  return value == nullptr ? absent == flag : *value == flag;
}

Result<MlxSplit> byte_level(const MlxObject& tokenizer, const std::vector<MlxObject>& parts,
                            bool ignores_merges) {
  // NFC is left to whoever writes the text, as with GGUF files, which do not name it.
  const auto normalizers = parts_of(tokenizer, "normalizer", "normalizers");
  if (!normalizers) return pass(normalizers);
  for (const MlxObject& part : *normalizers)
    if (type_of(part.value()) != "NFC") return part.unsupported("type", "is " + shown(part.value()));

  std::vector<std::string> found;
  for (const MlxObject& part : parts) {
    const std::string type = type_of(part.value());
    if (type == kByteLevel && &part == &parts.back()) {
      if (!is_flag(part.find("add_prefix_space"), false, true))
        return part.unsupported("add_prefix_space", "of ByteLevel is not false");
      if (is_flag(part.find("use_regex"), true, true)) found.emplace_back(kByteLevel);
    } else if (type == "Digits" && is_flag(part.find("individual_digits"), true, false)) {
      found.emplace_back(kDigits);
    } else if (type == "Split" && is_text(part.find("behavior"), "Isolated") &&
               is_flag(part.find("invert"), false, false)) {
      const auto pattern = part.object("pattern");
      if (!pattern) return pass(pattern);
      const json* regex = *pattern ? (*pattern)->find("Regex") : nullptr;
      if (regex == nullptr || !regex->is_string())
        return part.unsupported("pattern", "is no regular expression");
      found.push_back(regex->get<std::string>());
    } else {
      return part.unsupported("type", "is " + (type.empty() ? "absent" : printable(type)) +
                                          ", or its settings are none that this build knows");
    }
  }
  const Known* known = find_known(found, ignores_merges);
  if (known != nullptr) return MlxSplit{std::string(known->pre), false, false};
  std::string all;
  for (const std::string& part : found) all += (all.empty() ? "" : " then ") + printable(part);
  return tokenizer.unsupported("pre_tokenizer", "splits by " + all +
                                                    (ignores_merges ? ", ignoring merges" : "") +
                                                    ": a pattern that this build does not know");
}

// A mark for spaces: by two normalizers, as the first files have it, or by a pre-tokenizer that splits
// nothing.
Result<MlxSplit> pieces(const MlxObject& tokenizer, const std::vector<MlxObject>& parts) {
  const auto normalizers = parts_of(tokenizer, "normalizer", "normalizers");
  if (!normalizers) return pass(normalizers);
  MlxSplit out;
  bool replaces = false;
  for (const MlxObject& part : *normalizers) {
    const std::string type = type_of(part.value());
    const auto pattern = part.object("pattern");
    if (!pattern) return pass(pattern);
    if (type == "Prepend" && is_text(part.find("prepend"), kSpaceMark) && !replaces) {
      out.space_prefix = true;
    } else if (type == "Replace" && *pattern && is_text((*pattern)->find("String"), " ") &&
               is_text(part.find("content"), kSpaceMark) && !replaces) {
      replaces = true;
    } else {
      return part.unsupported(
          "type", "is " + shown(part.value()) + ", or its settings are none that this build knows");
    }
  }
  if (parts.empty() && replaces) return out;
  const bool metaspace =
      parts.size() == 1 && normalizers->empty() && type_of(parts[0].value()) == "Metaspace" &&
      is_text(parts[0].find("replacement"), kSpaceMark) && is_flag(parts[0].find("split"), false, true);
  const json* scheme = metaspace ? parts[0].find("prepend_scheme") : nullptr;
  if (!is_text(scheme, "first") && !is_text(scheme, "always") && !is_text(scheme, "never"))
    return tokenizer.unsupported(
        "pre_tokenizer", "with byte fallback is neither LLaMA's normalizers nor an unsplit Metaspace");
  out.space_prefix = !is_text(scheme, "never");
  out.prefix_once = is_text(scheme, "first");
  out.prefix_if_none = true;  // as tokenizers' metaspace.rs has it; its prepend.rs asks for nothing
  return out;
}

}  // namespace

Result<MlxSplit> recognize_mlx_split(const MlxObject& tokenizer, const MlxObject& model) {
  const auto parts = parts_of(tokenizer, "pre_tokenizer", "pretokenizers");
  if (!parts) return pass(parts);
  const auto fallback = model.flag("byte_fallback"), ignores = model.flag("ignore_merges");
  if (!fallback) return pass(fallback);
  if (!ignores) return pass(ignores);
  const bool bytes = !parts->empty() && type_of(parts->back().value()) == kByteLevel;
  if (bytes) return byte_level(tokenizer, *parts, ignores->value_or(false));
  if (fallback->value_or(false) && !ignores->value_or(false)) return pieces(tokenizer, *parts);
  return tokenizer.unsupported(
      "pre_tokenizer",
      "is neither byte-level nor has the model byte_fallback: a pattern that this build "
      "does not know");
}

}  // namespace flyball::model
