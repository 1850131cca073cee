// Mapping a regular file. The descriptor is closed at once; the mapping keeps the file.
#include "backends/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace flyball::model {
namespace {

std::unexpected<Error> io(const std::filesystem::path& path, const std::string& why) {
  return fail(ErrorCode::io_error, "cannot read the model file: " + why, {}, path.string());
}
std::string why(int error) {
  return std::generic_category().message(error);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io(path, why(errno));
  struct stat st = {};
  const int stat_error = ::fstat(fd, &st) == 0 ? 0 : errno;
  if (stat_error != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
    ::close(fd);
    if (stat_error != 0) return io(path, why(stat_error));
    return io(path, S_ISREG(st.st_mode) ? "the file is empty" : "not a regular file");
  }
  const auto size = static_cast<std::size_t>(st.st_size);
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int map_error = at == MAP_FAILED ? errno : 0;
  ::close(fd);
  if (map_error != 0) return io(path, why(map_error));
  MappedFile file;
  file.data_ = {static_cast<const std::byte*>(at), size};
  return file;
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!data_.empty()) ::munmap(const_cast<std::byte*>(data_.data()), data_.size());
}

}  // namespace flyball::model
