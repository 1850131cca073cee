// Sanitized programs never unload a driver: what it leaves behind is told by its name (tests/leaks.supp), or is still
// reachable from it, and the leak sanitizer cannot know either of a module that is gone.
#include <dlfcn.h>

extern "C" int dlclose(void*) noexcept {
  return 0;
}
