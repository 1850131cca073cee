#include "daemon/cli/exit_codes.hpp"

namespace flyball::cli {

int exit_code_for(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::config_invalid:
    case ErrorCode::receipt_outdated:
      return kBadConfig;
    case ErrorCode::io_error:
      return kIo;
    case ErrorCode::unsupported_value:
      return kUsage;
    case ErrorCode::model_unavailable:
    case ErrorCode::model_unsupported:
    case ErrorCode::insufficient_memory:
    case ErrorCode::overloaded:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::shutting_down:
    case ErrorCode::no_target:
    case ErrorCode::device_lost:
    case ErrorCode::worker_died:
    case ErrorCode::upstream_refused:
    case ErrorCode::upstream_timeout:
    case ErrorCode::upstream_invalid:
      return kUnavailable;
    case ErrorCode::internal:
    case ErrorCode::numeric_error:
      return kInternal;
    case ErrorCode::cancelled:
      return kFailed;
    default:
      return kBadInput;  // a model file, prompt or option value
  }
}

}  // namespace flyball::cli
