"""Which rank runs on which host: the file that --hostfile names."""

from __future__ import annotations

import os
import re

from .local import LOCAL

_LINE = re.compile(
    r"(?P<host>[^\s:]+|\[[^\]\s]+\])(?::(?P<count>\d+))?(?:\s+slots\s*=\s*(?P<slots>\d+))?(?:\s+\S+=\S+)*"
)


def read(path: str) -> list[tuple[str, int]]:
    """Each host with the number of ranks that it is meant for: lines of `host`, `host:4` or `host slots=4`.

    Raises OSError, and ValueError that names the line.
    """
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            match = _LINE.fullmatch(text)
            if match is None or match["host"].startswith("-"):  # ssh would take that for an option
                raise ValueError(f"{path}, line {number}: {text!r} is no host, host:count or host slots=count")
            found.append((match["host"].strip("[]"), int(match["count"] or match["slots"] or 1)))
    if not any(count for _, count in found):
        raise ValueError(f"{path} names no host")
    return found


def parse(text: str) -> list[tuple[str, int]]:
    """As read(), of hosts with commas between them: `host`, `host:4`. Raises ValueError."""
    found = []
    for entry in text.split(","):
        match = _LINE.fullmatch(entry.strip())
        if match is None or match["host"].startswith("-"):
            raise ValueError(f"{entry!r} is no host or host:count")
        found.append((match["host"].strip("[]"), int(match["count"] or 1)))
    if not any(count for _, count in found):
        raise ValueError(f"{text!r} names no host")
    return found


def place(hosts: list[tuple[str, int]], size: int) -> dict[str, list[int]]:
    """The ranks of each host, in order; where there are more ranks than places, again from the first host."""
    slots = [host for host, count in hosts for _ in range(count)]
    placed: dict[str, list[int]] = {}
    for rank in range(size):
        host = slots[rank % len(slots)]
        placed.setdefault(LOCAL if _is_here(host) else host, []).append(rank)
    return placed


def _is_here(host: str) -> bool:
    own = os.uname().nodename
    return host in ("localhost", "127.0.0.1", "::1", own, own.partition(".")[0])
