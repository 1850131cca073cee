// A folder that a test fills and that goes when the test ends.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/harness/temp_dir.hpp"

namespace flyball::discover {

class Folder {
 public:
  const std::filesystem::path& root() const { return dir_.path(); }
  // Makes the folders on the way, too.
  std::filesystem::path write(const std::filesystem::path& name, const std::string& text = "x") const {
    std::ofstream(made(name), std::ios::binary) << text;
    return root() / name;
  }
  std::filesystem::path link(const std::filesystem::path& name, const std::filesystem::path& target) const {
    std::filesystem::create_symlink(target, made(name));
    return root() / name;
  }

 private:
  std::filesystem::path made(const std::filesystem::path& name) const {
    std::filesystem::create_directories((root() / name).parent_path());
    return root() / name;
  }

  test::TempDir dir_;
};

}  // namespace flyball::discover
