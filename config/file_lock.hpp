// A lock of one file or directory among processes (flock). A process holds it for as long as it uses what the
// file stands for; the kernel ends the lock with the process, however that ends.
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
  // Opens the file and locks nothing yet. Makes it, for this user alone, where it is absent. io_error: the
  // system's reason, or a symbolic link lies in its place.
  static Result<FileLock> open(const std::filesystem::path& file);

  // Takes the lock, or changes its mode. The kernel gives a held lock up before it takes the other mode, so a
  // refused change leaves none. False: errno is EWOULDBLOCK where another process's lock excludes this one,
  // else it says why the file cannot be locked.
  bool try_take(Mode mode) noexcept;
  void give_up() noexcept;

  int descriptor() const noexcept { return file_.get(); }

 private:
  Descriptor file_;
};

// The id of this process, written into a file for others to name. A file that cannot be written tells
// nothing.
void sign(const std::filesystem::path& file) noexcept;
// "process 1234" by the id in the file; "a process of unknown id" where the file tells none, or that process
// has ended.
std::string signer(const std::filesystem::path& file);

}  // namespace flyball::config
