// A synthetic model without its weights: the shape and the sizes of a file that nobody has written, for
// planning. Reading a weight of it gives zeros.
#pragma once

#include <memory>

#include "backends/model/model_file.hpp"
#include "backends/model/synthetic.hpp"

namespace flyball::model {

class SyntheticOutline {
 public:
  // Takes addresses, not memory: pages that nobody writes. As check(spec); insufficient_memory: the system
  // gives no addresses for so large a file.
  static Result<SyntheticOutline> make(const SyntheticSpec& spec);
  const ModelFile& file() const noexcept { return *file_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* pages) const noexcept;
  };
  using Pages = std::unique_ptr<std::byte, Unmap>;
  SyntheticOutline(Pages pages, std::unique_ptr<ModelFile> file)
      : pages_(std::move(pages)), file_(std::move(file)) {}

  Pages pages_;
  std::unique_ptr<ModelFile> file_;  // views of pages_
};

}  // namespace flyball::model
