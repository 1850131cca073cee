// Counts the answers that people wait for where they are computed: engines that yield compute nothing on the
// same cores or cards meanwhile. One thread; no I/O.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/predict/predictor.hpp"

namespace flyball::route {

class People : public std::enable_shared_from_this<People> {
 public:
  // The engine kinds on whose cores or cards such answers are computed, in the order of config::kEngineKinds.
  using Kinds = std::vector<std::string>;

  // `changed` is told of them when they change; it may be called from within at() and a place's end.
  People(predict::DeviceGroups groups, std::function<void(const Kinds&)> changed)
      : groups_(std::move(groups)), changed_(std::move(changed)) {}

  // One answer; over with the object.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : people_(std::move(other.people_)), group_(other.group_) {}
    Place& operator=(Place&& other) noexcept;
    ~Place() { leave(); }

   private:
    friend class People;
    Place(std::shared_ptr<People> people, std::size_t group) : people_(std::move(people)), group_(group) {}
    void leave();
    std::shared_ptr<People> people_;
    std::size_t group_ = 0;
  };
  // An engine of this machine, by its instance's id, computes it from now on.
  Place at(std::string_view backend);
  Kinds kinds() const;

 private:
  std::size_t group_of(std::string_view kind) const;  // the cores: groups_.size()
  void count(std::size_t group, bool comes);

  const predict::DeviceGroups groups_;
  const std::function<void(const Kinds&)> changed_;
  std::vector<std::size_t> answers_;  // by group
};

}  // namespace flyball::route
