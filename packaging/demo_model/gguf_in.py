"""Reads a file that gguf_out wrote."""
import struct

import numpy as np

import gguf_out


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def unpack(self, form):
        out = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return out if len(out) > 1 else out[0]

    def string(self):
        length = self.unpack("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self):
        kind = self.unpack("I")
        if kind == 9:
            kind, length = self.unpack("IQ")
            return [self.string() if kind == 8 else self.unpack("i") for _ in range(length)]
        return self.string() if kind == 8 else self.unpack({4: "I", 6: "f", 7: "?"}[kind])


def from_q8_0(data, shape):
    blocks = np.frombuffer(data, np.uint8).reshape(-1, 34)
    scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return (scales * blocks[:, 2:].copy().view(np.int8)).reshape(shape)


def read(path):
    """(metadata, tensors): tensors as float32 arrays by their names."""
    reader = Reader(path.read_bytes())
    magic, _, n_tensors, n_metadata = reader.unpack("IIQQ")
    if magic != 0x46554747:
        raise ValueError(f"{path} is no GGUF file")
    metadata = {}
    for _ in range(n_metadata):
        name = reader.string()
        metadata[name] = reader.value()
    heads = []
    for _ in range(n_tensors):
        name, n_dims = reader.string(), reader.unpack("I")
        shape = tuple(reader.unpack("Q") for _ in range(n_dims))[::-1]
        heads.append((name, shape, *reader.unpack("IQ")))
    start = -(-reader.at // gguf_out.ALIGN) * gguf_out.ALIGN
    tensors = {}
    for name, shape, kind, offset in heads:
        count = int(np.prod(shape))
        size = count // 32 * 34 if kind == gguf_out.Q8_0 else count * 4
        blob = reader.data[start + offset:start + offset + size]
        tensors[name] = from_q8_0(blob, shape) if kind == gguf_out.Q8_0 else np.frombuffer(blob, np.float32).copy()
    return metadata, tensors
