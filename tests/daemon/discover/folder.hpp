// A folder that a test fills and that goes when the test ends.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace flyball::discover {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "flyball-discover-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  const std::filesystem::path& root() const { return root_; }
  // Makes the folders on the way, too.
  std::filesystem::path write(const std::filesystem::path& name, const std::string& text = "x") const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
    return root_ / name;
  }
  std::filesystem::path link(const std::filesystem::path& name, const std::filesystem::path& target) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::filesystem::create_symlink(target, root_ / name);
    return root_ / name;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace flyball::discover
