#include "backends/vulkan/choice.hpp"

#include <string>
#include <vector>

#include "backends/device/choice.hpp"

namespace flyball::vulkan {

Result<std::size_t> choose_found(std::span<const DeviceFacts> devices, const DeviceOptions& options) {
  std::vector<device::Candidate> candidates;
  std::string seen;
  bool software = false;
  for (const DeviceFacts& f : devices) {
    candidates.push_back({&f, f.lacks.empty()});
    seen +=
        (seen.empty() ? "; there is: " : ", ") + f.id + (f.lacks.empty() ? "" : ", which lacks " + f.lacks);
    software = software || (f.processor && f.lacks.empty());
  }
  const auto i = options.id.empty() ? device::choose_device(candidates, options.name, options.allow_processor)
                                    : device::device_of_id(candidates, options.id);
  if (i) return *i;
  const auto refuse = [](const std::string& message) {
    return fail(ErrorCode::model_unavailable, message + ".", "device");
  };
  if (options.id.empty())
    return refuse((options.name.empty() ? "No Vulkan GPU was found"
                                        : "No Vulkan device is called '" + options.name + "'") +
                  seen +
                  (options.name.empty() && software ? "; a software device is taken where it is named" : ""));
  for (const DeviceFacts& f : devices)
    if (f.id == options.id) return refuse("The Vulkan device " + f.id + " lacks " + f.lacks);
  return refuse("The Vulkan device " + options.id + " is gone" + seen);
}

}  // namespace flyball::vulkan
