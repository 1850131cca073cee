#include "backends/opencl/device.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "config/units.hpp"

namespace flyball::opencl {
namespace {

constexpr std::size_t kLogLine = 300;  // of a build log, in an error

// The first line that speaks of an error, or the first line.
std::string first_error(const std::string& log) {
  std::string first;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, std::min(end - at, kLogLine));
    if (line.find("error") != std::string::npos) return line;
    if (first.empty()) first = line;
    at = end + 1;
  }
  return first;
}

// Of a build: whether the next one will end the same way.
ErrorCode build_failure(cl_int status) {
  switch (status) {
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILER_NOT_AVAILABLE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_PROGRAM_EXECUTABLE:
    case CL_INVALID_KERNEL_NAME:
    case CL_INVALID_KERNEL_DEFINITION:
      return ErrorCode::model_unsupported;
    default:
      return ErrorCode::model_unavailable;
  }
}

// What the driver's thread and ours share while we wait.
struct Fence {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  cl_int status = CL_SUCCESS;
};

void CL_CALLBACK on_complete(cl_event, cl_int status, void* data) {
  const std::unique_ptr<std::shared_ptr<Fence>> fence(static_cast<std::shared_ptr<Fence>*>(data));
  {
    const std::lock_guard lock((*fence)->mutex);
    (*fence)->over = true;
    (*fence)->status = status;
  }
  (*fence)->changed.notify_one();
}

}  // namespace

Result<std::shared_ptr<Device>> Device::open(const DeviceOptions& options) {
  auto devices = open_all({&options, 1});
  if (!devices) return pass(devices);
  return std::move(devices->front());
}

Result<std::vector<std::shared_ptr<Device>>> Device::open_all(std::span<const DeviceOptions> options) {
  auto api = load_api();
  if (!api) return pass(api);
  auto chosen = choose_found(find_devices(**api), options);
  if (!chosen) return pass(chosen);
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t i = 0; i < options.size(); ++i) {
    auto device = open(*api, std::move((*chosen)[i]), options[i]);
    if (!device) return pass(device);
    devices.push_back(std::move(*device));
  }
  return devices;
}

Result<std::shared_ptr<Device>> Device::open(std::shared_ptr<const Api> api, FoundDevice found,
                                             const DeviceOptions& options) {
  std::shared_ptr<Device> device(new Device);
  device->options_ = options;
  device->objects_ = std::make_shared<Objects>();
  device->objects_->api = std::move(api);
  device->device_ = found.device;
  device->facts_ = std::move(found.facts);
  if (options.pretence.gpu) device->facts_.processor = false;
  if (options.pretence.local_bytes != 0) device->facts_.local_bytes = options.pretence.local_bytes;
  device->limit_ = options.allocation_limit != 0 ? options.allocation_limit : device->facts_.memory_bytes;
  if (options.on_open) options.on_open(device->objects_);

  const Api& cl = *device->objects_->api;
  const std::array<cl_context_properties, 3> properties{
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform), 0};
  cl_int status = device->intercept(Call::allocate);
  if (status == CL_SUCCESS)
    device->context_ = {device->objects_, cl.clCreateContext(properties.data(), 1, &device->device_, nullptr,
                                                             nullptr, &status)};
  if (status != CL_SUCCESS) return device->failed("clCreateContext", status);
  status = device->intercept(Call::allocate);
  const cl_queue_properties timed[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
  if (status == CL_SUCCESS)
    device->queue_ = {device->objects_, cl.clCreateCommandQueueWithProperties(
                                            device->context_.get(), device->device_,
                                            options.times != nullptr ? timed : nullptr, &status)};
  if (status != CL_SUCCESS) return device->failed("clCreateCommandQueue", status);
  return device;
}

Device::~Device() {
  if (objects_ && objects_->in_doubt) settle();
}

std::unexpected<Error> Device::failed(const std::string& call, cl_int status) const {
  return fail(ErrorCode::device_lost, "The OpenCL device " + facts_.id + " failed: " + call + " gave error " +
                                          std::to_string(status) + ".");
}

std::unexpected<Error> Device::not_allocated(const std::string& call, cl_int status, std::uint64_t bytes,
                                             std::string_view what) const {
  if (status != CL_MEM_OBJECT_ALLOCATION_FAILURE && status != CL_OUT_OF_RESOURCES &&
      status != CL_OUT_OF_HOST_MEMORY && status != CL_INVALID_BUFFER_SIZE)
    return failed(call, status);
  const auto sizes = config::sizes_to_compare({bytes, free_bytes(), facts_.max_allocation_bytes});
  return fail(ErrorCode::insufficient_memory, "Not enough memory on " + facts_.id + " for " +
                                                  std::string(what) + ": " + sizes[0] + " are needed, " +
                                                  sizes[1] + " are free, " + sizes[2] + " at once (" + call +
                                                  ": error " + std::to_string(status) + ").");
}

Result<Memory> Device::create(std::uint64_t bytes, cl_mem_flags flags, void* host, std::string_view what) {
  const bool counted = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR)) == 0;
  cl_int status = CL_SUCCESS;
  if ((counted && bytes > free_bytes()) || bytes > facts_.max_allocation_bytes)
    status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (status == CL_SUCCESS) status = intercept(Call::allocate);
  Memory buffer;
  if (status == CL_SUCCESS)
    buffer.handle = {objects_, objects_->api->clCreateBuffer(context_.get(), flags, bytes, host, &status)};
  if (status != CL_SUCCESS) return not_allocated("clCreateBuffer", status, bytes, what);
  buffer.bytes = bytes;
  if (counted) buffer.counted = {objects_, bytes};
  return buffer;
}

Result<Memory> Device::allocate(std::uint64_t bytes, std::string_view what) {
  auto buffer = create(std::max<std::uint64_t>(bytes, 4), CL_MEM_READ_WRITE, nullptr, what);
  if (!buffer) return pass(buffer);
  const cl_uchar zero = 0;
  cl_event raw = nullptr;
  busy_ = true;
  cl_int status = intercept(Call::allocate);
  if (status == CL_SUCCESS)
    status = objects_->api->clEnqueueFillBuffer(queue_.get(), buffer->handle.get(), &zero, sizeof zero, 0,
                                                buffer->bytes, 0, nullptr, &raw);
  if (status == CL_SUCCESS) {
    auto outcome = outcome_in_time(Handle<cl_event>(objects_, raw));
    if (!outcome) return pass(outcome);
    status = *outcome;
  }
  if (status != CL_SUCCESS) {
    buffer->counted = {};
    return not_allocated("clEnqueueFillBuffer", status, buffer->bytes, what);
  }
  busy_ = false;
  return buffer;
}

Result<Device::Pinned> Device::allocate_pinned(std::uint64_t bytes, std::string_view what) {
  auto buffer = create(bytes, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, nullptr, what);
  if (!buffer) return pass(buffer);
  cl_event raw = nullptr;
  void* host = nullptr;
  busy_ = true;
  cl_int status = intercept(Call::allocate);
  if (status == CL_SUCCESS)
    host = objects_->api->clEnqueueMapBuffer(queue_.get(), buffer->handle.get(), CL_FALSE,
                                             CL_MAP_WRITE | CL_MAP_READ, 0, bytes, 0, nullptr, &raw, &status);
  if (status == CL_SUCCESS) {
    auto outcome = outcome_in_time(Handle<cl_event>(objects_, raw));
    if (!outcome) return pass(outcome);
    status = *outcome;
  }
  if (status != CL_SUCCESS) return not_allocated("clEnqueueMapBuffer", status, bytes, what);
  busy_ = false;
  return Pinned{std::move(*buffer), static_cast<std::byte*>(host)};
}

void Device::unpin(Pinned pinned) noexcept {
  if (pinned.host == nullptr || objects_->abandoned) return;
  // A failure leaves it mapped for as long as the buffer is there, and that is not long.
  objects_->api->clEnqueueUnmapMemObject(queue_.get(), pinned.buffer.handle.get(), pinned.host, 0, nullptr,
                                         nullptr);
}

Result<Memory> Device::import(std::span<const std::byte> bytes, std::string_view what) {
  // The flag promises that the device only reads.
  return create(bytes.size(), CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, const_cast<std::byte*>(bytes.data()),
                what);
}

Result<Handle<cl_program>> Device::compile(std::string_view name, std::span<const std::string_view> sources,
                                           const std::string& options) {
  const Api& cl = *objects_->api;
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  for (const std::string_view source : sources) {
    texts.push_back(source.data());
    lengths.push_back(source.size());
  }
  cl_int status = intercept(Call::build);
  Handle<cl_program> program;
  if (status == CL_SUCCESS)
    program = {objects_, cl.clCreateProgramWithSource(context_.get(), static_cast<cl_uint>(texts.size()),
                                                      texts.data(), lengths.data(), &status)};
  if (status == CL_SUCCESS)
    status = cl.clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr);
  if (status == CL_SUCCESS) return program;
  std::string log;
  std::size_t n = 0;
  if (program &&
      cl.clGetProgramBuildInfo(program.get(), device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &n) == CL_SUCCESS &&
      n > 1) {
    log.resize(n);
    cl.clGetProgramBuildInfo(program.get(), device_, CL_PROGRAM_BUILD_LOG, n, log.data(), nullptr);
    log.resize(n - 1);
  }
  const std::string line = first_error(log);
  return fail(build_failure(status),
              "The kernel " + std::string(name) + " does not build on " + facts_.id + ": error " +
                  std::to_string(status) + (line.empty() ? "." : ", " + line),
              "backend", "kernels/opencl/" + std::string(name) + ".cl");
}

Handle<cl_program> Device::from_binary(std::span<const std::byte> binary, const std::string& options) {
  const Api& cl = *objects_->api;
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t length = binary.size();
  cl_int status = intercept(Call::build);
  cl_int loaded = CL_SUCCESS;
  Handle<cl_program> program;
  if (status == CL_SUCCESS)
    program = {objects_,
               cl.clCreateProgramWithBinary(context_.get(), 1, &device_, &length, &bytes, &loaded, &status)};
  if (status != CL_SUCCESS || loaded != CL_SUCCESS) return {};
  if (cl.clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr) != CL_SUCCESS)
    return {};
  return program;
}

std::vector<std::byte> Device::binary_of(const Handle<cl_program>& program) {
  const Api& cl = *objects_->api;
  std::size_t size = 0;
  if (cl.clGetProgramInfo(program.get(), CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS)
    return {};
  std::vector<std::byte> binary(size);
  auto* at = reinterpret_cast<unsigned char*>(binary.data());
  if (size == 0 ||
      cl.clGetProgramInfo(program.get(), CL_PROGRAM_BINARIES, sizeof at, &at, nullptr) != CL_SUCCESS)
    return {};
  return binary;
}

Result<Kernel> Device::kernel(const Handle<cl_program>& program, const std::string& name) {
  cl_int status = intercept(Call::build);
  Kernel kernel;
  if (status == CL_SUCCESS)
    kernel.kernel = {objects_, objects_->api->clCreateKernel(program.get(), name.c_str(), &status)};
  if (status != CL_SUCCESS)
    return fail(
        build_failure(status),
        "The kernel " + name + " cannot be made on " + facts_.id + ": error " + std::to_string(status) + ".",
        "backend");
  kernel.name = name;
  if (auto ok = check_needs(kernel); !ok) return pass(ok);
  return kernel;
}

// What the compiler made of a kernel may need more registers or local memory than its work-groups can have
// here.
Result<void> Device::check_needs(const Kernel& kernel) const {
  const auto ask = [&](cl_kernel_work_group_info what, auto& value) {
    return objects_->api->clGetKernelWorkGroupInfo(kernel.kernel.get(), device_, what, sizeof value, &value,
                                                   nullptr) == CL_SUCCESS;
  };
  std::array<std::size_t, 3> group{};  // of its attribute; zeros without one
  std::size_t most = 0;
  cl_ulong local = 0;
  const auto refuse = [&](const std::string& needs, std::uint64_t has) {
    return fail(ErrorCode::model_unsupported,
                "The kernel " + kernel.name + " needs " + needs + " on " + facts_.id + ", which has " +
                    std::to_string(has) + ".",
                "backend");
  };
  if (ask(CL_KERNEL_COMPILE_WORK_GROUP_SIZE, group) && ask(CL_KERNEL_WORK_GROUP_SIZE, most)) {
    if (options_.pretence.kernel_items != 0) most = options_.pretence.kernel_items;
    if (const std::size_t items = group[0] * group[1] * group[2]; items > most)
      return refuse("work-groups of " + std::to_string(items) + " work-items", most);
  }
  if (ask(CL_KERNEL_LOCAL_MEM_SIZE, local) && local > facts_.local_bytes)
    return refuse(std::to_string(local) + " bytes of local memory", facts_.local_bytes);
  return {};
}

Result<void> Device::enqueue(const Kernel& kernel, const Grid& grid) {
  busy_ = true;
  cl_event event = nullptr;
  cl_int status = intercept(Call::enqueue);
  if (status == CL_SUCCESS)
    status = objects_->api->clEnqueueNDRangeKernel(queue_.get(), kernel.kernel.get(), 3, nullptr,
                                                   grid.global.data(), grid.local.data(), 0, nullptr,
                                                   options_.times != nullptr ? &event : nullptr);
  if (status != CL_SUCCESS) return failed("the start of " + kernel.name, status);
  if (event != nullptr) timed_.push_back({kernel.name, Handle<cl_event>(objects_, event)});
  return {};
}

Result<Handle<cl_event>> Device::write_later(const Memory& to, std::uint64_t at,
                                             std::span<const std::byte> from) {
  cl_event event = nullptr;
  busy_ = true;
  cl_int status = intercept(Call::enqueue);
  if (status == CL_SUCCESS)
    status = objects_->api->clEnqueueWriteBuffer(queue_.get(), to.handle.get(), CL_FALSE, at, from.size(),
                                                 from.data(), 0, nullptr, &event);
  if (status != CL_SUCCESS) return failed("a write to the device", status);
  return Handle<cl_event>(objects_, event);
}

Result<void> Device::write(const Memory& to, std::uint64_t at, std::span<const std::byte> from) {
  auto bytes = std::make_unique<std::vector<std::byte>>(from.begin(), from.end());
  auto event = write_later(to, at, *bytes);
  if (!event) return pass(event);
  auto ok = wait_for_all(*event);
  if (!ok && !at_rest()) (void)bytes.release();  // the device may still read them
  return ok;
}

Result<void> Device::copy(const Memory& from, std::uint64_t from_at, const Memory& to, std::uint64_t to_at,
                          std::uint64_t bytes) {
  busy_ = true;
  cl_int status = intercept(Call::enqueue);
  if (status == CL_SUCCESS)
    status = objects_->api->clEnqueueCopyBuffer(queue_.get(), from.handle.get(), to.handle.get(), from_at,
                                                to_at, bytes, 0, nullptr, nullptr);
  if (status != CL_SUCCESS) return failed("a copy on the device", status);
  return {};
}

Result<void> Device::read(const Memory& from, std::uint64_t at, std::span<std::byte> to) {
  cl_event raw = nullptr;
  busy_ = true;
  cl_int status = intercept(Call::enqueue);
  if (status == CL_SUCCESS)
    status = objects_->api->clEnqueueReadBuffer(queue_.get(), from.handle.get(), CL_FALSE, at, to.size(),
                                                to.data(), 0, nullptr, &raw);
  if (status != CL_SUCCESS) return failed("a read from the device", status);
  return wait_for_all(Handle<cl_event>(objects_, raw));
}

Result<void> Device::flush() {
  cl_int status = intercept(Call::enqueue);
  if (status == CL_SUCCESS) status = objects_->api->clFlush(queue_.get());
  if (status != CL_SUCCESS) return failed("clFlush", status);
  return {};
}

Result<Handle<cl_event>> Device::mark() {
  cl_event raw = nullptr;
  cl_int status = intercept(Call::enqueue);
  if (status == CL_SUCCESS)
    status = objects_->api->clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, &raw);
  if (status != CL_SUCCESS) return failed("a fence", status);
  return Handle<cl_event>(objects_, raw);
}

Result<void> Device::finish() {
  auto event = mark();
  return event ? wait_for_all(*event) : pass(event);
}

Result<void> Device::wait_for_all(const Handle<cl_event>& last) {
  auto ok = wait(last);
  if (ok) busy_ = false;
  if (ok && options_.times != nullptr) collect_times();
  return ok;
}

void Device::collect_times() {
  for (const Timed& t : timed_) {
    cl_ulong began = 0, ended = 0;  // ns
    const auto ask = [&](cl_profiling_info what, cl_ulong& value) {
      return objects_->api->clGetEventProfilingInfo(t.event.get(), what, sizeof value, &value, nullptr);
    };
    if (ask(CL_PROFILING_COMMAND_START, began) == CL_SUCCESS &&
        ask(CL_PROFILING_COMMAND_END, ended) == CL_SUCCESS)
      options_.times->add(t.kernel, static_cast<double>(ended - began) * 1e-9);
  }
  timed_.clear();
}

std::optional<cl_int> Device::outcome_of(cl_event event, std::chrono::microseconds patience) const {
  return facts_.processor ? call_of(event, patience) : answer_of(event, patience);
}

std::optional<cl_int> Device::call_of(cl_event event, std::chrono::microseconds patience) const {
  const auto fence = std::make_shared<Fence>();
  auto data = std::make_unique<std::shared_ptr<Fence>>(fence);
  const cl_int status = objects_->api->clSetEventCallback(event, CL_COMPLETE, &on_complete, data.get());
  if (status != CL_SUCCESS) return status;
  (void)data.release();  // the callback's now
  std::unique_lock lock(fence->mutex);
  if (!fence->changed.wait_for(lock, patience, [&] { return fence->over; })) return std::nullopt;
  return fence->status;
}

// The driver of an H100 called back late in November 2026: steps of 16 ms took 20 or 40, and a layer of 1.5
// ms took 10. So it is asked, each time a sixteenth of the wait has passed, and 50 us at the least. What it
// says of an event orders no memory (OpenCL 3.0, clGetEventInfo): waiting for the event does, and takes no
// time then.
std::optional<cl_int> Device::answer_of(cl_event event, std::chrono::microseconds patience) const {
  using std::chrono::microseconds;
  constexpr microseconds kShortest{50}, kLongest{1'000};
  const Api& cl = *objects_->api;
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    cl_int state = CL_QUEUED;
    const cl_int status =
        cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
    if (status != CL_SUCCESS) return status;
    if (state < CL_COMPLETE) return state;
    if (state == CL_COMPLETE) return cl.clWaitForEvents(1, &event);
    const auto passed = std::chrono::ceil<microseconds>(std::chrono::steady_clock::now() - began);
    if (passed >= patience) return std::nullopt;
    std::this_thread::sleep_for(std::min(std::clamp(passed / 16, kShortest, kLongest), patience - passed));
  }
}

Result<cl_int> Device::outcome_in_time(const Handle<cl_event>& event) const {
  if (const cl_int status = objects_->api->clFlush(queue_.get()); status != CL_SUCCESS) return status;
  std::optional<cl_int> outcome;
  if (intercept(Call::answer) == CL_SUCCESS) outcome = outcome_of(event.get(), options_.fence_deadline);
  if (!outcome) {
    objects_->in_doubt = true;
    return fail(ErrorCode::device_lost, "The OpenCL device " + facts_.id + " gave no answer within " +
                                            config::exact_time_text(options_.fence_deadline.count()) + ".");
  }
  return std::min(*outcome, CL_SUCCESS);
}

Result<void> Device::wait(const Handle<cl_event>& event) {
  cl_int status = intercept(Call::wait);
  if (status == CL_SUCCESS) {
    auto outcome = outcome_in_time(event);
    if (!outcome) return pass(outcome);
    status = *outcome;
  }
  if (status != CL_SUCCESS) {
    objects_->in_doubt = true;
    return failed("waiting for the device", status);
  }
  return {};
}

bool Device::settle() noexcept {
  if (objects_->abandoned) return false;
  const Api& cl = *objects_->api;
  cl_event raw = nullptr;
  cl_int status = intercept(Call::settle);
  if (status == CL_SUCCESS) status = cl.clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, &raw);
  const Handle<cl_event> event(objects_, raw);
  if (status == CL_SUCCESS) status = cl.clFlush(queue_.get());
  // Only a marker that was reached proves that what lay before it is over: one that ended by an error, or
  // that nobody can be told of, proves nothing.
  const bool resting = status == CL_SUCCESS && outcome_of(raw, options_.settle_deadline) == CL_COMPLETE;
  busy_ = !resting;
  objects_->settled(resting);
  return resting;
}

}  // namespace flyball::opencl
