"""What tells hosts apart: two ranks with the same identity reach each other by shared memory, UNIX names and pids."""

from __future__ import annotations

from ...system.originals import originals

_NAMESPACES = ("net", "ipc", "pid")  # UNIX names; System V segments; process numbers


def of_this_process() -> str:
    """The boot of the kernel, and the namespaces that containers are made of: those that it is in now."""
    try:
        with originals.open_file("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = originals.uname().nodename
    return "/".join([boot, *map(_namespace, _NAMESPACES)])


def _namespace(kind: str) -> str:
    try:
        return originals.readlink(f"/proc/self/ns/{kind}").partition("[")[2].rstrip("]")
    except OSError:
        return "?"


def host_name() -> str:
    """As people know this host."""
    return originals.uname().nodename
