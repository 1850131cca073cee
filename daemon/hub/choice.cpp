#include "daemon/hub/choice.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "backends/model/gguf.hpp"
#include "backends/model/split_name.hpp"
#include "config/ascii_lower.hpp"
#include "config/name_list.hpp"
#include "config/percent.hpp"
#include "config/table.hpp"
#include "config/terminal_text.hpp"
#include "config/units.hpp"

namespace flyball::hub {
namespace {

// The quantizations whose element types this build reads (kernels/formats/format_table.h), the one that most
// people want first: Q4_K_M halves Q8_0 at little loss, and Q8_0 is where small models lose nothing.
constexpr std::array<std::string_view, 26> kQuants{
    "Q4_K_M", "Q8_0", "Q5_K_M", "Q6_K", "Q4_K_S", "Q5_K_S", "IQ4_XS", "IQ4_NL",    "Q4_0",
    "Q4_K",   "Q5_K", "Q5_0",   "Q5_1", "Q4_1",   "Q4_K_L", "MXFP4",  "MXFP4_MOE", "Q3_K_M",
    "Q3_K_L", "Q3_K", "Q3_K_S", "BF16", "F16",    "FP16",   "F32",    "FP32"};

constexpr std::string_view kGguf = ".gguf", kSafetensors = ".safetensors";

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool ends_alike(std::string_view name, std::string_view end) {
  return name.size() >= end.size() && upper(name.substr(name.size() - end.size())) == upper(end);
}

// Q4_K_M, IQ3_XXS, TQ1_0, MXFP4, MXFP4_MOE, F16, BF16, FP16; Q4 alone, too.
bool is_quant(std::string_view word) {
  const std::string name = upper(word);
  std::string_view rest = name;
  for (const std::string_view whole : {"F16", "F32", "BF16", "FP16", "FP32", "MXFP4", "MXFP4_MOE", "NVFP4"})
    if (rest == whole) return true;
  if (rest.starts_with("IQ") || rest.starts_with("TQ")) rest.remove_prefix(1);
  return rest.size() >= 2 && rest[0] == 'Q' && std::isdigit(static_cast<unsigned char>(rest[1])) != 0 &&
         (rest.size() == 2 || rest[2] == '_');
}

// The last word of a name that is a quantization: a model's own name stands before it. Words end at '-' and
// '.', and begin behind '_', too, which a quantization may hold itself.
std::string quant_in(std::string_view name) {
  for (std::size_t end = name.size(); end > 0;) {
    const std::size_t at = name.find_last_of("-.", end - 1);
    const std::size_t first = at == std::string_view::npos ? 0 : at + 1;
    for (std::size_t begin = first; begin < end;) {
      if (is_quant(name.substr(begin, end - begin))) {
        const bool dynamic = begin >= 3 && upper(name.substr(begin - 3, 3)) == "UD-";
        return std::string(name.substr(dynamic ? begin - 3 : begin, end - begin + (dynamic ? 3 : 0)));
      }
      const std::size_t bar = name.substr(0, end).find('_', begin);
      begin = bar == std::string_view::npos ? end : bar + 1;
    }
    end = first == 0 ? 0 : first - 1;
  }
  return {};
}

// The name of a model's files without shard number and ending.
std::string stem_of(std::string_view path) {
  const std::string name(path);
  if (const auto shard = model::shard_name(name)) return shard->stem;
  return name.substr(0, name.size() - kGguf.size());
}

// A model of the repository: one file or all its shards.
struct Candidate {
  std::string stem;  // with its folder
  std::string quant;
  std::vector<RepoFile> files;
  std::uint32_t shards = 1;
  std::uint64_t size() const {
    std::uint64_t sum = 0;
    for (const RepoFile& file : files) sum += file.size;
    return sum;
  }
  bool complete() const { return files.size() == shards; }
};

std::vector<Candidate> candidates_of(std::span<const RepoFile> files) {
  std::map<std::pair<std::string, std::uint32_t>, Candidate> found;
  for (const RepoFile& file : files) {
    if (!ends_alike(file.path, kGguf)) continue;
    const std::string name = upper(base_name(file.path));
    // The projector of a model that reads pictures, and the counts that a quantization was made by.
    if (name.find("MMPROJ") != std::string::npos || name.find("IMATRIX") != std::string::npos) continue;
    if (base_name(stem_of(file.path)).empty()) continue;  // ".gguf" alone names no model
    const auto shard = model::shard_name(file.path);
    const std::uint32_t count = shard ? shard->count : 1;
    Candidate& candidate = found[{stem_of(file.path), count}];
    candidate.stem = stem_of(file.path);
    candidate.quant = quant_of(file.path);
    candidate.shards = count;
    candidate.files.push_back(file);
  }
  std::vector<Candidate> out;
  for (auto& [stem, candidate] : found) {
    std::ranges::sort(candidate.files, {}, &RepoFile::path);
    out.push_back(std::move(candidate));
  }
  return out;
}

std::string described(const std::vector<Candidate>& candidates) {
  constexpr std::size_t kShown = 24;
  std::string out;
  for (std::size_t i = 0; i < std::min(candidates.size(), kShown); ++i)
    out += (i == 0 ? "" : ", ") +
           (candidates[i].quant.empty() ? std::string(base_name(candidates[i].stem)) : candidates[i].quant) +
           " (" + config::size_text(candidates[i].size()) + ")";
  if (candidates.size() > kShown) out += " and " + std::to_string(candidates.size() - kShown) + " more";
  return out;
}

std::string file_names(const std::vector<Candidate>& candidates) {
  std::vector<std::string_view> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.files.front().path);
  return config::listed(names);
}

// "UD-Q4_K_XL" is also called "Q4_K_XL".
bool is_called(const Candidate& candidate, std::string_view quant) {
  const std::string own = upper(candidate.quant), asked = upper(quant);
  return own == asked || (own.starts_with("UD-") && own.substr(3) == asked);
}

bool is_read(std::string_view quant) {
  std::string name = upper(quant);
  if (name.starts_with("UD-")) name.erase(0, 3);
  for (const std::string_view family : {"Q3_K", "Q4_K", "Q5_K", "Q6_K"})
    if (name.starts_with(family)) return true;
  return std::ranges::find(kQuants, name) != kQuants.end();
}

Result<Choice> chosen(const Candidate& candidate) {
  if (!candidate.complete())
    return fail(ErrorCode::unsupported_value, "the repository has " + std::to_string(candidate.files.size()) +
                                                  " of the " + std::to_string(candidate.shards) +
                                                  " shards of " + candidate.stem +
                                                  ": its owner has not uploaded all of them");
  Choice out;
  out.files = candidate.files;
  out.name = base_name(candidate.stem);
  out.quant = candidate.quant;
  return out;
}

Result<Choice> choose_file(const std::vector<Candidate>& candidates, const HubName& wanted) {
  for (const Candidate& candidate : candidates)
    if (std::ranges::find(candidate.files, wanted.file, &RepoFile::path) != candidate.files.end())
      return chosen(candidate);
  std::vector<std::string_view> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.files.front().path);
  return fail(ErrorCode::unsupported_value,
              wanted.repo + " has no model file " + config::not_among(wanted.file, names));
}

// A repository without a GGUF file: the directory that MLX reads.
Result<Choice> choose_directory(std::span<const RepoFile> files, const HubName& wanted) {
  Choice out;
  out.kind = Choice::Kind::mlx;
  out.name = base_name(wanted.repo);
  bool weights = false, config = false;
  for (const RepoFile& file : files) {
    if (file.path.find('/') != std::string::npos) continue;  // other forms of the model, pictures
    config = config || file.path == "config.json";
    const bool of_weights = ends_alike(file.path, kSafetensors);
    weights = weights || of_weights;
    const bool wanted_too =
        std::ranges::any_of(std::array{".json", ".jinja", ".model", ".tiktoken"},
                            [&](std::string_view end) { return ends_alike(file.path, end); }) ||
        file.path == "merges.txt" || file.path == "vocab.txt";
    if (of_weights || wanted_too) out.files.push_back(file);
  }
  if (config && weights) return out;
  return fail(ErrorCode::unsupported_value,
              wanted.repo +
                  " has neither a GGUF file nor config.json beside *.safetensors files: it holds no "
                  "model that this build reads");
}

Result<Choice> choose_quant(std::vector<Candidate> candidates, const HubName& wanted) {
  const std::string there = ": there are " + described(candidates);
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(upper(candidate.quant));
  const std::vector<std::string_view> quants(names.begin(), names.end());
  std::string quant = wanted.quant;
  if (quant.empty()) {
    if (candidates.size() == 1) return chosen(candidates.front());
    for (const std::string_view one : kQuants) {
      if (std::ranges::none_of(candidates, [&](const Candidate& c) { return is_called(c, one); })) continue;
      quant = one;
      break;
    }
    for (const Candidate& candidate : candidates)
      if (quant.empty() && is_read(candidate.quant)) quant = candidate.quant;
    if (quant.empty())
      return fail(ErrorCode::unsupported_value, wanted.repo + " has no quantization that this build reads" +
                                                    there + "; name a file of it if you know better, as " +
                                                    wanted.repo + "/" +
                                                    candidates.front().files.front().path);
  }
  std::erase_if(candidates, [&](const Candidate& c) { return !is_called(c, quant); });
  // The plain one is meant where the repository also has one of dynamic types.
  if (std::ranges::any_of(candidates, [&](const Candidate& c) { return upper(c.quant) == upper(quant); }))
    std::erase_if(candidates, [&](const Candidate& c) { return upper(c.quant) != upper(quant); });
  if (candidates.empty())
    return fail(ErrorCode::unsupported_value, wanted.repo + " has no quantization " +
                                                  config::quoted(terminal_text(quant)) +
                                                  config::did_you_mean(upper(quant), quants) + there);
  if (candidates.size() > 1)
    return fail(ErrorCode::unsupported_value, wanted.repo + " has several models of the quantization " +
                                                  quant + ": name one of these files, as " + wanted.repo +
                                                  "/FILE: " + file_names(candidates));
  if (!is_read(quant))
    return fail(ErrorCode::unsupported_value, "this build reads no quantization " + config::quoted(quant) +
                                                  there + "; it reads " + model::readable_types());
  return chosen(candidates.front());
}

constexpr std::string_view kPages[] = {"resolve/", "blob/", "tree/"};

// True for a path of a hub that is a repository's page, or one of its files; any other file is only a file.
bool is_repo_page(std::string_view path) {
  const std::size_t first = path.find('/');
  if (first == std::string_view::npos) return false;
  const std::size_t second = path.find('/', first + 1);
  if (second == std::string_view::npos) return !ends_alike(path, kGguf);
  return std::ranges::any_of(
      kPages, [&](std::string_view page) { return path.substr(second + 1).starts_with(page); });
}

// "ORG/REPO", ":QUANT" and "/FILE" behind it, without the name of a server. The parts of an address are
// decoded one by one, since a revision may hold a slash.
Result<HubName> read_path(std::string_view path, std::string_view words, bool encoded) {
  const auto refuse = [&] {
    return fail(
        ErrorCode::invalid_value,
        "expected ORG/REPO, ORG/REPO:Q4_K_M, ORG/REPO/FILE.gguf or the address of a file, got " +
            config::quoted(without_secrets(words)) +
            (words.find('/') == std::string_view::npos
                 ? ". A name without a slash is Ollama's: ollama pull it, and then flyball models find"
                 : ""));
  };
  const auto text = [&](std::string_view part) {
    return encoded ? percent_decoded(part).value_or("") : std::string(part);
  };
  HubName out;
  const bool asked_quant = path.find(':') != std::string_view::npos;
  if (const std::size_t colon = path.find(':'); colon != std::string_view::npos) {
    out.quant = text(path.substr(colon + 1));
    path = path.substr(0, colon);
    if (out.quant.empty() || out.quant.find('/') != std::string::npos) return refuse();
    if (ascii_lower(out.quant) == "latest") out.quant.clear();  // other tools' word for no wish
  }
  const std::size_t first = path.find('/');
  if (first == std::string_view::npos) return refuse();
  const std::size_t second = std::min(path.find('/', first + 1), path.size());
  out.repo = text(path.substr(0, second));
  // ".part" is the name of a folder that is being gathered.
  if (!is_safe_path(out.repo) || std::ranges::count(out.repo, '/') != 1 || out.repo.ends_with(".part"))
    return refuse();
  std::string_view rest = path.substr(std::min(second + 1, path.size()));
  if (second + 1 == path.size()) return refuse();
  for (const std::string_view page : kPages) {
    if (!rest.starts_with(page)) continue;
    rest.remove_prefix(page.size());
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    out.revision = text(rest.substr(0, slash));
    if (!is_safe_path(out.revision)) return refuse();
    rest = page == "tree/" ? std::string_view() : rest.substr(std::min(slash + 1, rest.size()));
    break;
  }
  if (rest.empty()) return out;
  out.file = text(rest);
  if (!is_safe_path(out.file) || !ends_alike(out.file, kGguf) || asked_quant) return refuse();
  return out;
}

}  // namespace

std::string quant_of(std::string_view file) {
  const std::string stem = stem_of(file);
  std::string quant = quant_in(base_name(stem));
  // "Q8_0/model.gguf": each quantization in a folder of its own.
  if (const std::size_t slash = stem.rfind('/'); quant.empty() && slash != std::string::npos)
    quant = quant_in(base_name(std::string_view(stem).substr(0, slash)));
  return quant;
}

Result<std::variant<HubName, Url>> read_name(std::string_view words, const Url& hub) {
  for (const std::string_view host : {"hf.co/", "huggingface.co/"})
    if (words.starts_with(host)) {
      auto name = read_path(words.substr(host.size()), words, false);
      if (!name) return pass(name);
      return std::move(*name);
    }
  if (words.find("://") == std::string_view::npos) {
    auto name = read_path(words, words, false);
    if (!name) return pass(name);
    return std::move(*name);
  }
  auto url = parse_url(words);
  if (!url) return pass(url);
  const bool known =
      url->host == "huggingface.co" || url->host == "hf.co" || url->host == "www.huggingface.co";
  if (!known && !same_origin(*url, hub)) return std::move(*url);
  std::string path = url->path();
  if (!known) {  // a hub's base may have a path of its own
    const std::string base = hub.path() == "/" ? std::string() : hub.path();
    if (!path.starts_with(base + "/")) return std::move(*url);
    path.erase(0, base.size());
  }
  while (path.ends_with('/')) path.pop_back();
  if (path.empty() || !is_repo_page(path.substr(1))) return std::move(*url);
  auto name = read_path(path.substr(1), words, true);
  if (!name) return pass(name);
  return std::move(*name);
}

Result<Choice> choose(std::span<const RepoFile> files, const HubName& wanted) {
  auto candidates = candidates_of(files);
  if (!wanted.file.empty()) return choose_file(candidates, wanted);
  if (candidates.empty()) return choose_directory(files, wanted);
  return choose_quant(std::move(candidates), wanted);
}

}  // namespace flyball::hub
