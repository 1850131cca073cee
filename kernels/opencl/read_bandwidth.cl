// How fast kernels on this device can read: every work-item reads its share of `words` vectors once and keeps
// their xor. WIDTH: uints a load. CHUNKED: a work-item's share is four runs read side by side (processors, whose
// prefetchers follow several streams), not every n-th vector (GPUs, whose neighbours then read neighbouring memory).
#ifndef WIDTH
#define WIDTH 4
#endif
#ifndef CHUNKED
#define CHUNKED 0
#endif
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define Words CAT(uint, WIDTH)

// in: [words] vectors; out: [work-items, WIDTH]. Precondition: 4 * work-items divides words.
__kernel void read_bandwidth(__global const uint* in, __global uint* out, uint words) {
  const uint item = get_global_id(0), items = get_global_size(0), share = words / items;
#if CHUNKED
  const uint first = item * share, next = 1, run = share / 4;
#else
  const uint first = item, next = 4 * items, run = items;
#endif
  Words a = 0, b = 0, c = 0, d = 0;  // four loads under way at once
  for (uint i = 0; i < share / 4; ++i) {
    const size_t at = first + (size_t)i * next;
    a ^= CAT(vload, WIDTH)(at, in);
    b ^= CAT(vload, WIDTH)(at + run, in);
    c ^= CAT(vload, WIDTH)(at + 2 * (size_t)run, in);
    d ^= CAT(vload, WIDTH)(at + 3 * (size_t)run, in);
  }
  CAT(vstore, WIDTH)(a ^ b ^ c ^ d, item, out);
}
