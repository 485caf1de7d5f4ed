"""Reads event files of TensorBoard without its code: frames with their check sums, then the few fields of Event and Summary."""
import glob
import os
import struct


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    """Payloads of whole records; ValueError where a check sum is wrong. A record cut off by a crash ends the file."""
    at = 0
    while at + 12 <= len(data):
        size, check = struct.unpack_from("<QI", data, at)
        if masked(data[at:at + 8]) != check:
            raise ValueError(f"wrong check sum of the length at {at}")
        payload = data[at + 12:at + 12 + size]
        if at + 16 + size > len(data):
            return
        if masked(payload) != struct.unpack_from("<I", data, at + 12 + size)[0]:
            raise ValueError(f"wrong check sum of the record at {at}")
        yield payload
        at += 16 + size


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"wire type {wire}")
        yield key >> 3, value


def event(payload):
    """{"time", "step", "version", "start", "points": [(tag, value)]}"""
    out = {"time": 0.0, "step": 0, "version": None, "start": False, "points": []}
    for number, value in fields(payload):
        if number == 1:
            out["time"] = value
        elif number == 2:
            out["step"] = value
        elif number == 3:
            out["version"] = value.decode()
        elif number == 5:
            for _, point in fields(value):
                parts = dict(fields(point))
                out["points"].append((parts[1].decode(), parts[2]))
        elif number == 7:
            out["start"] = dict(fields(value)).get(1) == 1
    return out


def files(folder):
    return sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*")))


def curves(folder):
    """{tag: [(step, value, time)]} over all files, as TensorBoard reads them: a session start drops its step and later ones."""
    out = {}
    for path in files(folder):
        with open(path, "rb") as f:
            events = [event(r) for r in records(f.read())]
        if not events or events[0]["version"] != "brain.Event:2":
            raise ValueError(f"{path} doesn't begin with its version")
        for e in events:
            if e["start"]:
                out = {tag: [p for p in points if p[0] < e["step"]] for tag, points in out.items()}
            for tag, value in e["points"]:
                out.setdefault(tag, []).append((e["step"], value, e["time"]))
    return out
