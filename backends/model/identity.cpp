#include "backends/model/identity.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <new>
#include <span>
#include <system_error>
#include <type_traits>
#include <variant>

#include <openssl/evp.h>

#include "backends/model/pin.hpp"
#include "backends/model/split_name.hpp"

namespace flyball::model {
namespace {

// Of each part of a tensor, at its beginning, in its middle and at its end.
constexpr std::size_t kSample = 1024;

class Writer {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void number(T value) { bytes(std::as_bytes(std::span(&value, 1))); }
  void text(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  void bytes(std::span<const std::byte> value) {
    out_.append(reinterpret_cast<const char*>(value.data()), value.size());
  }
  void sample(std::span<const std::byte> data) {
    number(data.size());
    if (data.size() <= 3 * kSample) return bytes(data);
    for (const std::size_t at : {std::size_t{0}, data.size() / 2, data.size() - kSample})
      bytes(data.subspan(at, kSample));
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void write_value(Writer& out, const GgufValue& value) {
  out.number(value.index());
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          out.text(v);
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          out.number(v.count);  // a vocabulary's texts say nothing of KV
          if (v.type != GgufType::string) out.sample(v.raw);
        } else {
          out.number(v);
        }
      },
      value);
}

void write_file(Writer& out, const std::filesystem::path& path) {
  std::error_code ignored;  // zeros stand for what cannot be asked
  out.number(std::filesystem::file_size(path, ignored));
  out.number(std::filesystem::last_write_time(path, ignored).time_since_epoch().count());
}

void write_content(Writer& out, const ModelFile& model) {
  for (const auto& [key, value] : model.gguf().metadata()) {
    out.text(key);
    write_value(out, value);
  }
  for (const GgufTensor& tensor : model.gguf().tensors()) {
    out.text(tensor.name);
    out.number(tensor.type);
    for (const std::uint64_t dim : tensor.dims) out.number(dim);
    for (const auto part : {tensor.data, tensor.scales, tensor.biases}) out.sample(part);
  }
}

}  // namespace

std::string identity_of(const ModelFile& model, const std::filesystem::path& path) {
  Writer out;
  write_content(out, model);
  std::error_code ignored;
  if (path.empty()) return out.take();
  if (!std::filesystem::is_directory(path, ignored)) {
    for (const std::filesystem::path& file : shard_files(path)) write_file(out, file);
    return out.take();
  }
  std::map<std::string, std::filesystem::path> files;  // in order of name
  for (std::filesystem::directory_iterator at(path, ignored), end; !ignored && at != end;
       at.increment(ignored))
    files.emplace(at->path().filename().string(), at->path());
  for (const auto& [name, file] : files) {
    out.text(name);
    write_file(out, file);
  }
  return out.take();
}

std::string digest_of(const ModelFile& model) {
  Writer out;
  write_content(out, model);
  const std::string content = out.take();
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (EVP_Digest(content.data(), content.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc();
  return to_hex(std::span(hash).first(size));
}

}  // namespace flyball::model
