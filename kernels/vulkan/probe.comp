#version 450
// Proof that a device computes: element i becomes i * 2654435761 + data[i] (backends/device_report.hpp).
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Data { uint data[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < data.length()) data[i] += i * 2654435761u;
}
