"""Message sizes as people write them."""

from __future__ import annotations

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse(text: str) -> list[int]:
    """``1,64,4k,1m`` as numbers of bytes. Raises ValueError for anything else."""
    sizes = []
    for word in text.lower().split(","):
        unit = UNITS.get(word[-1:], 1)
        sizes.append(int(word[:-1] if unit > 1 else word) * unit)
    if min(sizes) < 1:
        raise ValueError("a message has at least one byte")
    return sizes


def name(size: int) -> str:
    """``65536`` as ``64 KiB``."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
