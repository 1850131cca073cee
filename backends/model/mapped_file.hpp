// A file mapped read-only into memory, for weights. Move-only; unmapped on destruction.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "config/error.hpp"

namespace flyball::model {

class MappedFile {
 public:
  // io_error: the path leads to no file that can be read. model_unavailable: the machine cannot map it now.
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const noexcept { return data_; }

 private:
  std::span<const std::byte> data_;
};

}  // namespace flyball::model
