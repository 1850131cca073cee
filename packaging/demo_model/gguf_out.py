"""Writes a GGUF v3 file: metadata, then F32 and Q8_0 tensors (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)."""
import struct

import numpy as np

F32, Q8_0 = 0, 8
ALIGN = 32


def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    if isinstance(v, bool):
        return struct.pack("<I?", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + string(v)
    if isinstance(v, list) and isinstance(v[0], str):
        return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(string(x) for x in v)
    if isinstance(v, list) and isinstance(v[0], int):
        return struct.pack("<IIQ", 9, 5, len(v)) + struct.pack(f"<{len(v)}i", *v)
    raise TypeError(type(v))


def q8_0(a):
    """Blocks of 32: f16 scale = max|x| / 127, then int8 values."""
    blocks = a.reshape(-1, 32).astype(np.float32)
    scale = (np.abs(blocks).max(axis=1) / 127).astype(np.float32)
    inverse = np.where(scale > 0, 1 / np.where(scale > 0, scale, 1), 0)
    quants = np.rint(blocks * inverse[:, None]).astype(np.int8)
    out = np.empty((len(blocks), 34), np.uint8)
    out[:, :2] = scale.astype(np.float16)[:, None].view(np.uint8)
    out[:, 2:] = quants.view(np.uint8)
    return out.tobytes()


def write(path, metadata, tensors):
    """tensors: name -> float32 array, [rows, cols] or [n]. Matrices become Q8_0, vectors stay F32."""
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(metadata))
    for k, v in metadata.items():
        head += string(k) + value(v)
    blobs, offset = [], 0
    for name, a in tensors.items():
        kind = Q8_0 if a.ndim == 2 else F32
        blob = q8_0(a) if kind == Q8_0 else a.astype(np.float32).tobytes()
        dims = a.shape[::-1]
        head += string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        head += struct.pack("<IQ", kind, offset)
        blob += b"\0" * (-len(blob) % ALIGN)
        blobs.append(blob)
        offset += len(blob)
    head += b"\0" * (-len(head) % ALIGN)
    with open(path, "wb") as f:
        f.write(head)
        for blob in blobs:
            f.write(blob)
