// Bytes that the daemon holds for each app: request bodies that wait to be parsed, and answers that their
// clients have not read. `limits.held_bytes` of the manifest bounds them. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace flyball::route {

class HeldBytes {
 public:
  // A part of an app's bytes, given back when it is destroyed. It must not outlive its HeldBytes.
  class Share {
   public:
    Share() noexcept = default;
    Share(Share&& other) noexcept : of_(std::exchange(other.of_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() { shrink_to(0); }

    // Adds to the share. False: the app would hold more than `limit`; the share stays as it is.
    bool grow(std::uint64_t bytes, std::uint64_t limit) noexcept {
      if (of_ == nullptr || bytes > limit || *of_ > limit - bytes) return false;
      *of_ += bytes;
      bytes_ += bytes;
      return true;
    }
    void shrink_to(std::uint64_t bytes) noexcept {
      if (of_ == nullptr || bytes >= bytes_) return;
      *of_ -= bytes_ - bytes;
      bytes_ = bytes;
    }
    std::uint64_t bytes() const noexcept { return bytes_; }
    std::uint64_t bytes_of_app() const noexcept { return of_ == nullptr ? 0 : *of_; }  // of all its shares

   private:
    friend class HeldBytes;
    explicit Share(std::uint64_t* of) noexcept : of_(of) {}
    std::uint64_t* of_ = nullptr;  // the app's sum
    std::uint64_t bytes_ = 0;
  };

  Share share_of(const std::string& app) { return Share(&apps_[app]); }  // of no bytes yet
  std::uint64_t held(const std::string& app) const {
    const auto it = apps_.find(app);
    return it == apps_.end() ? 0 : it->second;
  }

 private:
  std::map<std::string, std::uint64_t> apps_;  // of the configuration: they are few, and stay
};

}  // namespace flyball::route
