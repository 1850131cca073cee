// Proof that a device computes: element i becomes i * 2654435761 + data[i] (backends/device_report.hpp).
__kernel void probe(__global uint* data, uint n) {
  uint i = get_global_id(0);
  if (i < n) data[i] += i * 2654435761u;
}
