// Rows that a decision leaves behind, in order. Room for the longest path is made beforehand, so that to add
// a row is to write it: from start() on, and end_at() says where the last one ends. A copy is as long as the
// path.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

namespace flyball::policy {

template <class Row>
class Path {
 public:
  Path() = default;
  Path(const Path& other) { *this = other; }
  Path(Path&& other) noexcept { swap(other); }
  Path& operator=(const Path& other) {
    if (this == &other) return *this;
    end_at(std::copy(other.begin(), other.end(), start(other.size())));
    return *this;
  }
  Path& operator=(Path&& other) noexcept {
    swap(other);
    return *this;
  }

  // Where to write the first of at most `room` rows; what was there is gone.
  Row* start(std::size_t room) {
    size_ = 0;
    if (room > room_) {
      rows_ = std::make_unique<Row[]>(room);
      room_ = room;
    }
    return rows_.get();
  }
  void end_at(const Row* end) { size_ = static_cast<std::size_t>(end - rows_.get()); }

  const Row* begin() const { return rows_.get(); }
  const Row* end() const { return rows_.get() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Row& operator[](std::size_t i) const {
    if (i >= size_) std::abort();  // what was there before may still lie behind the end
    return rows_[i];
  }

 private:
  void swap(Path& other) noexcept {
    std::swap(rows_, other.rows_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
  }

  std::unique_ptr<Row[]> rows_;
  std::size_t size_ = 0, room_ = 0;
};

}  // namespace flyball::policy
