// Every mmap of a load fails once: the load says why, and leaves nothing mapped. The linker puts these in the
// place of our own calls (--wrap); those of the C library are untouched.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "backends/local/local_backend.hpp"
#include "backends/model/synthetic.hpp"

namespace {

std::atomic<std::int64_t> maps_until_failure = -1;  // calls left before one fails; negative: none fails
std::atomic<std::int64_t> mapped = 0;               // bytes

}  // namespace

extern "C" {
void* __real_mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* at, std::size_t bytes);

void* __wrap_mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (maps_until_failure.load() >= 0 && maps_until_failure.fetch_sub(1) == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const got = __real_mmap(at, bytes, protection, flags, fd, offset);
  if (got != MAP_FAILED) mapped += static_cast<std::int64_t>(bytes);
  return got;
}
int __wrap_munmap(void* at, std::size_t bytes) {
  mapped -= static_cast<std::int64_t>(bytes);
  return __real_munmap(at, bytes);
}
}

namespace flyball::test {
namespace {

TEST(Mapping, EveryMapFailsOnce) {
  auto spec = model::parse_synthetic_shape("dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=512,context=256");
  ASSERT_TRUE(spec);
  spec->type = kernels::DType::q8_0;
  local::LocalBackendOptions options;
  options.model_id = "tiny";
  options.path =
      std::filesystem::temp_directory_path() / ("flyball-map-" + std::to_string(getpid()) + ".gguf");
  ASSERT_TRUE(model::write_synthetic_file(*spec, options.path, 1));
  options.threads = 2;
  const std::int64_t before = mapped;
  std::int64_t n = 0;
  for (bool loaded = false; !loaded && n < 1000; ++n) {
    maps_until_failure = n;
    const auto backend = local::make_local_backend(options);
    maps_until_failure = -1;
    loaded = backend.has_value();
    if (loaded) continue;
    const ErrorCode code = backend.error().code;
    EXPECT_TRUE(code == ErrorCode::insufficient_memory || (n == 0 && code == ErrorCode::model_unavailable))
        << n << ": " << backend.error().message;
    EXPECT_EQ(mapped, before) << n;
  }
  EXPECT_GT(n, 4);  // the file, weights, scratch, KV, and the load that succeeded
  EXPECT_LT(n, 1000);
  EXPECT_EQ(mapped, before);
  std::filesystem::remove(options.path);
}

}  // namespace
}  // namespace flyball::test
