#include "backends/model/synthetic_outline.hpp"

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/model/synthetic_plan.hpp"
#include "config/units.hpp"

namespace flyball::model {
namespace {

bool is_rope(SyntheticPlan::Role role) {
  using enum SyntheticPlan::Role;
  return role == rope_factors || role == short_factors || role == long_factors;
}

}  // namespace

void SyntheticOutline::Unmap::operator()(std::byte* pages) const noexcept {
  ::munmap(pages, bytes);
}

Result<SyntheticOutline> SyntheticOutline::make(const SyntheticSpec& spec) {
  if (auto ok = check(spec); !ok) return pass(ok);
  const SyntheticPlan plan(spec);
  const std::uint64_t bytes = plan.file_bytes();
  void* mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return fail(ErrorCode::insufficient_memory,
                "The system gives no addresses for a model file of " + config::size_text(bytes) + ".",
                "shape");
  Pages pages(static_cast<std::byte*>(mapped), Unmap{bytes});
  std::memcpy(pages.get(), plan.header().data(), plan.header().size());
  // The only values that say something about the shape.
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
    const SyntheticPlan::Tensor& tensor = plan.tensors()[i];
    if (!is_rope(tensor.role)) continue;
    std::vector<float> row(tensor.cols);
    plan.fill_row(i, 0, row);
    std::memcpy(pages.get() + tensor.offset, row.data(), row.size() * sizeof(float));
  }
  auto file = ModelFile::from_bytes({pages.get(), bytes});
  if (!file) return pass(file);
  return SyntheticOutline(std::move(pages), std::move(*file));
}

}  // namespace flyball::model
