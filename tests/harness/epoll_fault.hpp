// Adding a descriptor to an epoll set fails on demand, as it does without memory or beyond the user's limit
// of watches. Link `epoll_fault`: its wrapper takes the place of our own calls of epoll_ctl.
#pragma once

namespace flyball::test {

// EPOLL_CTL_ADD succeeds n more times and then fails once, with ENOSPC; negative: it always succeeds.
void fail_epoll_add_after(int n) noexcept;

}  // namespace flyball::test
