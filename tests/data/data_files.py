"""Data files written by hand, for tests that run without numpy."""
import os
import struct
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))

CODES = {"<f4": "f", "<f2": "e", "|u1": "B", "<i4": "i", "<i8": "q", "<u2": "H"}


def npy(kind, shape, values):
    """An NPY; `values` are all its numbers in order."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{CODES[kind]}", *values)


def npz(path, **members):
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members.items():
            z.writestr(name + ".npy", data)


def idx(shape, values):
    """An IDX of bytes."""
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + bytes(values)
