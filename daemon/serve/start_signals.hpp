// Signals that come while the daemon starts, before its loop takes them.
#pragma once

namespace flyball::serve {

// First thing in the process. SIGTERM and SIGINT end it at once with exit code 0: nothing runs yet that could
// be lost. SIGHUP is held back, however often it comes, until release_signals().
void hold_signals();

// Once the loop has handlers of its own: a SIGHUP that was held is one reload.
void release_signals();

}  // namespace flyball::serve
