"""Makes shapes-train.npz and shapes-test.npz: noisy 16 x 16 pictures of discs, boxes and rings, and which pixels belong to them.

    make_shapes.py [FOLDER]

The same bytes every time: seeded, and archives without dates. Needs numpy."""
import io
import os
import sys
import zipfile

import numpy as np

SIZE = 16


def shape_mask(rng):
    y, x = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    radius = rng.uniform(2, 5)
    cy, cx = rng.uniform(radius, SIZE - radius, 2)
    distance = np.hypot(y - cy, x - cx)
    kind = rng.integers(3)
    if kind == 0:
        return distance < radius
    if kind == 1:
        return np.maximum(abs(y - cy), abs(x - cx)) < 0.8 * radius
    return (distance < radius) & (distance > 0.5 * radius)


def pictures(rng, count):
    mask = np.zeros((count, SIZE, SIZE, 1), np.uint8)
    for i in range(count):
        for _ in range(rng.integers(1, 4)):
            mask[i, ..., 0] |= shape_mask(rng)
    light = rng.uniform(60, 110, (count, 1, 1, 1))
    image = 70 + light * mask + rng.normal(0, 30, mask.shape)
    return np.clip(image, 0, 255).astype(np.uint8), mask


def write(path, arrays):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.save(data, array)
            archive.writestr(zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0)), data.getvalue(), zipfile.ZIP_DEFLATED)


folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
generator = np.random.default_rng(7)
for split, rows in (("train", 800), ("test", 200)):
    picture, inside = pictures(generator, rows)
    write(os.path.join(folder, f"shapes-{split}.npz"), {"image": picture, "mask": inside})
