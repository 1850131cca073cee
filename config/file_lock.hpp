// A lock of one file among processes (flock). A process holds it for as long as it uses what the file stands for; the kernel
// ends the lock with the process, however that ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "config/descriptor.hpp"
#include "config/error.hpp"

namespace flyball::config {

class FileLock {
 public:
  enum class Mode : std::uint8_t { shared, alone };

  FileLock() = default;  // of no file
  explicit FileLock(Descriptor file) noexcept : file_(std::move(file)) {}
  // Opens the file and locks nothing yet. Makes it, for this user alone, where it is absent. io_error: the system's reason,
  // or a symbolic link lies in its place.
  static Result<FileLock> open(const std::filesystem::path& file);

  // Takes the lock, or changes its mode. The kernel gives a held lock up before it takes the other mode: a refused change
  // leaves none.
  bool try_take(Mode mode) noexcept;  // false: another process's lock excludes it (errno EWOULDBLOCK), or errno says why
  bool take(Mode mode) noexcept;      // waits for it; false: the file cannot be locked, errno says why
  void give_up() noexcept;            // a lock ends with the last descriptor of the file, too

  // Writes this process's id into the file, for signer(). Precondition: this process holds the lock alone.
  void sign() noexcept;
  // The id that the last holder signed with; 0: none.
  int signer() const noexcept;

 private:
  Descriptor file_;
};

}  // namespace flyball::config
