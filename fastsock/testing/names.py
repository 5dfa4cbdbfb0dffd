"""Names in the abstract UNIX namespace, and the processes that hold them."""

from __future__ import annotations

import os


def names_of(pid: int) -> dict[str, int]:
    """The abstract names that a process's sockets are bound to, as `bind()` wants them, with the sockets' types."""
    inodes = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:
            # Closed since it was listed.
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = {}
    with open("/proc/net/unix") as file:
        for line in file:
            fields = line.split(maxsplit=7)
            if len(fields) > 7 and fields[7].startswith("@") and fields[6] in inodes:
                found["\0" + fields[7].rstrip("\n")[1:]] = int(fields[4], 16)
    return found
