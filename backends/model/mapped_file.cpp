// Mapping a regular file. The descriptor is closed at once; the mapping keeps the file.
#include "backends/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "config/descriptor.hpp"

namespace flyball::model {
namespace {

std::unexpected<Error> refuse(const std::filesystem::path& path, const std::string& why,
                              ErrorCode code = ErrorCode::io_error) {
  return fail(code, "cannot read the model file: " + why, {}, path.string());
}
// The cause and, where a person can do something, the remedy.
std::string why(const std::filesystem::path& path, int error) {
  constexpr std::array kSites{"hf.co", "huggingface.co", "http:", "https:", "hf:", "ollama:", "ollama.com"};
  const bool names_a_site = std::ranges::any_of(path, [&](const std::filesystem::path& part) {
    return std::ranges::find(kSites, part.string()) != kSites.end();
  });
  std::string text = std::generic_category().message(error);
  if (error == ENOENT && names_a_site)
    return text + "; Flyball fetches no models: download the file, and give its path on this machine";
  if (error == EACCES)
    return text + " for the user with id " + std::to_string(::geteuid()) +
           ": the file must be readable and every folder above it searchable for this user (namei -l shows "
           "where it "
           "ends)";
  return text;
}
// Absent, hidden or no file at all: the path or the file is at fault. Anything else (too many open files, no
// memory, a disk that does not answer) is the machine's trouble and passes.
std::unexpected<Error> refuse(const std::filesystem::path& path, int error) {
  const bool files_fault = error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM ||
                           error == ELOOP || error == ENAMETOOLONG || error == ENXIO || error == ENODEV;
  return refuse(path, why(path, error), files_fault ? ErrorCode::io_error : ErrorCode::model_unavailable);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return refuse(path, errno);
  struct stat st = {};
  if (::fstat(fd.get(), &st) != 0) return refuse(path, errno);
  if (!S_ISREG(st.st_mode)) return refuse(path, "not a regular file");
  if (st.st_size == 0) return refuse(path, "the file is empty");
  const auto size = static_cast<std::size_t>(st.st_size);
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return refuse(path, errno);
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
