// What the exit codes of `flyball` mean; sysexits.h where it has a name for it. Listed in `flyball --help`.
#pragma once

#include "config/error.hpp"

namespace flyball::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;        // the command ran and its answer is no (a check found errors)
inline constexpr int kUsage = 64;        // wrong options
inline constexpr int kBadInput = 65;     // a model file, prompt or facts file is malformed
inline constexpr int kUnavailable = 69;  // no engine, device or daemon to do it
inline constexpr int kInternal = 70;
inline constexpr int kIo = 74;
inline constexpr int kBadConfig = 78;    // config.yaml, policy.yaml or a manifest is wrong or cannot be read;
                                         // systemd does not restart on it

int exit_code_for(const Error& error) noexcept;

}  // namespace flyball::cli
