// Models by name and by size: which words are of one model, and which of another.
#include "policy/scenario_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace flyball::policy {
namespace {

bool about_equal(std::int64_t a, std::int64_t b) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) <= 0.1 * static_cast<double>(b);
}

}  // namespace

bool is_model_size(const Text& text, std::size_t at) {
  return (number_of(text.word(at)) && text.next(at + 1) == "b") ||
         (text.word(at) == "a" && number_of(text.next(at + 1)) && text.next(at + 2) == "b");
}

std::size_t ModelReader::read_parameters(std::size_t at, std::size_t longest) {
  if (longest > 3) return 0;  // "mixtral 8x7b"
  std::size_t i = at;
  double count = 1;
  if (number_of(scan_.text.word(i)) && number_of(scan_.text.next(i + 1)) && scan_.text.next(i + 2) == "b") {
    count = *number_of(scan_.text.word(i));
    ++i;
  } else if (number_of(scan_.text.word(i)) && scan_.text.next(i + 1) == "x" &&
             number_of(scan_.text.next(i + 2)) && scan_.text.next(i + 3) == "b") {
    count = *number_of(scan_.text.word(i));
    i += 2;
  }
  const auto billions = number_of(scan_.text.word(i));
  if (!billions || scan_.text.next(i + 1) != "b" || *billions <= 0 || *billions > 10'000) return 0;
  std::size_t end = i + 2;
  bool moe = false;
  if (scan_.text.next(end) == "a" && number_of(scan_.text.next(end + 1)) && scan_.text.next(end + 2) == "b") {
    moe = true;
    end += 3;
  }
  while (same_word(scan_.text.next(end), "parameter") || same_word(scan_.text.next(end), "param") ||
         same_word(scan_.text.next(end), "model"))
    ++end;
  const bool models = count > 1 && scan_.text.word(end - 1) == "models";
  if (i > at && (!models || count > kMostOfACount)) return 0;
  const std::string words = scan_.text.said(at, end - at);
  std::string facts = filled("model.parameters=#", *billions * 1e9);
  if (moe) facts += " model.moe=true";
  if (!scan_.negated && is_alternative(at, end)) return end - at;
  if (!scan_.negated) {
    const auto weights = std::llround(*billions * 1e9);
    if (models || !is_size_of_name(at, weights, moe, end)) {
      if (moe) scan_.sayings.add("model.moe=true", words);
      add({words, weights, 0, std::llround(count)}, nullptr, at, end);
    }
  }
  scan_.in_model_name = true;
  return scan_.understand(at, end - at, facts);
}

void ModelReader::take_name(const ScenarioModel& model, std::size_t at, std::size_t length) {
  const bool alternative = model.parameters > 0 && is_alternative(at, at + length);
  if (!alternative) {
    add_named(model, at, length);
    std::string facts = "a model's name";
    if (model.parameters > 0)
      facts = "model.parameters=" + std::to_string(model.parameters) + (model.moe ? " model.moe=true" : "");
    scan_.reading.understood.push_back({scan_.text.said(at, length), facts});
  }
  scan_.in_model_name = true;
}

// The size of a name holds unless the text says another one: "the 671b deepseek r1" is one model.
void ModelReader::add_named(const ScenarioModel& model, std::size_t at, std::size_t length) {
  const std::string words = scan_.text.said(at, length);
  const bool sized = model.parameters > 0;
  const bool behind = sized && !name_ && is_right_behind(at);
  if (behind && !about_equal(models_.back().parameters, model.parameters)) {
    name_another(model, at + length);
    return;
  }
  if (model.moe) scan_.sayings.add("model.moe=true", words);
  if (!model.architecture.empty())
    scan_.sayings.add("model.architecture=" + std::string(model.architecture), words);
  if (!sized) {
    open_quantization_ = true;
    return;
  }
  if (behind) {
    name_ = &model;
    end_ = at + length;
    models_.back().words = scan_.text.said(begin_, end_ - begin_);
  } else if (!is_known(model)) {
    add({words, model.parameters, 0, 1}, &model, at, at + length);
  }
  names_.push_back(&model);
}

void ModelReader::take_quantization(const ScenarioQuantization& quantization, std::size_t at,
                                    std::size_t length) {
  const std::string words = scan_.text.said(at, length);
  std::string facts;
  if (!quantization.name.empty()) {
    facts = "model.quantization=" + std::string(quantization.name);
    scan_.sayings.add(facts, words);
  }
  if (quantization.gguf) {
    scan_.sayings.add("model.format=gguf", words);
    facts += " model.format=gguf";
  }
  if (!models_.empty() && models_.back().bits == 0 && !open_quantization_) {
    models_.back().bits = quantization.bits;
  } else {
    bits_ = quantization.bits;
  }
  scan_.reading.understood.push_back({words, facts.empty() ? "bits of a weight" : facts});
  if (end_ == at) end_ = at + length;
  scan_.in_model_name = true;
}

// `name`: of a model whose name says its size; nullptr where a size alone is said.
void ModelReader::add(Reading::Model model, const ScenarioModel* name, std::size_t at, std::size_t end) {
  open_quantization_ = false;
  if (bits_ > 0) model.bits = std::exchange(bits_, 0);
  models_.push_back(std::move(model));
  name_ = name;
  begin_ = at;
  end_ = end;
}

bool ModelReader::is_right_behind(std::size_t at) const {
  if (models_.empty() || models_.back().count > 1) return false;
  for (std::size_t i = end_; i < at; ++i)
    if (!among(std::array<std::string_view, 3>{"the", "model", "of"}, scan_.text.word(i))) return false;
  return true;
}

// "70B or 32B".
bool ModelReader::is_alternative(std::size_t at, std::size_t end) {
  if (!scan_.alternative || models_.empty()) return false;
  const std::string words = scan_.text.said(at, end - at), first = models_.back().words;
  scan_.reading.notes.push_back("\"" + words + "\" is an alternative to \"" + first +
                                "\": the advice is for " + first + ", ask for each alone to compare");
  scan_.reading.understood.push_back({words, "an alternative"});
  scan_.alternative = false;
  return true;
}

bool ModelReader::is_known(const ScenarioModel& model) const {
  return std::ranges::find(names_, &model) != names_.end();
}

// "deepseek r1 671b" is one model; "deepseek r1 32b" is not the model that has this name.
bool ModelReader::is_size_of_name(std::size_t at, std::int64_t parameters, bool moe, std::size_t end) {
  if (!name_ || !is_right_behind(at)) return false;
  if (!about_equal(parameters, name_->parameters)) {
    models_.back().parameters = parameters;
    scan_.sayings.forget("model.moe");
    if (moe) scan_.sayings.add("model.moe=true", scan_.text.said(at, end - at));
    name_another(*name_, end);
    return true;
  }
  end_ = end;
  models_.back().words = scan_.text.said(begin_, end - begin_);
  return true;
}

void ModelReader::name_another(const ScenarioModel& model, std::size_t end) {
  scan_.sayings.forget("model.architecture");
  end_ = end;
  name_ = nullptr;
  Reading::Model& last = models_.back();
  last.words = scan_.text.said(begin_, end - begin_);
  scan_.reading.notes.push_back("\"" + last.words + "\" is taken for another model than the one of " +
                                std::to_string(std::llround(static_cast<double>(model.parameters) / 1e9)) +
                                "B that has this name");
}

void ModelReader::extend_name(std::size_t at) {
  const char* const between = scan_.text.before(at) == Break::joint   ? "-"
                              : scan_.text.before(at) == Break::space ? " "
                                                                      : "";
  if (!scan_.reading.understood.empty())
    scan_.reading.understood.back().words += between + scan_.text.said(at, 1);
  if (end_ == at) end_ = at + 1;
}

void ModelReader::settle() {
  const Saying* format = scan_.sayings.get("model.format");
  for (Reading::Model& model : models_) {
    if (model.bits == 0) model.bits = bits_ > 0 ? bits_ : format && format->text == "fp8" ? 8 : kUsualBits;
    scan_.reading.models.push_back(model);
  }
  if (models_.empty()) return;
  const Reading::Model& model = models_.front();
  scan_.sayings.add("model.parameters=" + std::to_string(model.parameters), model.words);
  if (!scan_.sayings.get("model.bytes"))
    scan_.sayings.add(
        "model.bytes=" + std::to_string(std::llround(static_cast<double>(model.parameters) * model.bits / 8)),
        model.words);
  // One large model on several Macs whose memory is not said: no single one holds it, or there would be
  // one.
  constexpr std::int64_t kLarge = std::int64_t{64} << 30;
  const Saying* nodes = scan_.sayings.get("hardware.cluster.nodes");
  const Saying* vendor = scan_.sayings.get("hardware.gpu.vendor");
  const Saying* bytes = scan_.sayings.get("model.bytes");
  if (nodes && std::get<std::int64_t>(nodes->value) > 1 && vendor && vendor->text == "apple" &&
      !scan_.sayings.get("hardware.memory.total") && std::get<std::int64_t>(bytes->value) > kLarge)
    scan_.sayings.add("model.fits_memory~=false", nodes->words);
}

}  // namespace flyball::policy
