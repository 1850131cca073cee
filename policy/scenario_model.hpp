// Reads the models in a text: their names, sizes and quantizations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "policy/scenario_scan.hpp"

namespace flyball::policy {

// Whether "70B" or "a3b" stands here.
bool is_model_size(const Text& text, std::size_t at);

class ModelReader {
 public:
  explicit ModelReader(Scan& scan) : scan_(scan) {}

  // "70B", "30b-a3b", "two 32B models". `longest`: atoms of the longest pattern here. Returns the number of
  // atoms; 0: no size is here.
  std::size_t read_parameters(std::size_t at, std::size_t longest);
  void take_name(const ScenarioModel& model, std::size_t at, std::size_t length);
  void take_quantization(const ScenarioQuantization& quantization, std::size_t at, std::size_t length);
  // The atom belongs to the name before it.
  void extend_name(std::size_t at);
  // Lists the models of the whole text and adds the facts of the first one. HardwareReader settles before.
  void settle();

 private:
  void add(Reading::Model model, const ScenarioModel* name, std::size_t at, std::size_t end);
  void add_named(const ScenarioModel& model, std::size_t at, std::size_t length);
  void name_another(const ScenarioModel& model, std::size_t end);
  bool is_alternative(std::size_t at, std::size_t end);
  bool is_size_of_name(std::size_t at, std::int64_t parameters, bool moe, std::size_t end);
  bool is_right_behind(std::size_t at) const;
  bool is_known(const ScenarioModel& model) const;

  Scan& scan_;
  std::vector<Reading::Model> models_;       // bits 0: not said
  std::vector<const ScenarioModel*> names_;  // of models whose name says their size
  const ScenarioModel* name_ = nullptr;      // of the last model, where its name says its size
  std::size_t begin_ = 0, end_ = 0;          // atoms of the last model
  double bits_ = 0;                          // of a quantization that no model has yet; 0: none
  bool open_quantization_ = false;           // the next quantization is that of a model to come
};

}  // namespace flyball::policy
