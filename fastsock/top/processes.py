"""The processes of this user that have fastsock loaded, as /proc tells."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LIBRARIES = (b"libfastsock_preload.so", b"/fastsock/core/binding/_core.", b"/fastsock/core/preload/_core.")
_RANK = (b"FASTSOCK_MPJ_RANK", b"FASTSOCK_MPJ_SIZE", b"FASTSOCK_MPJ_JOB")
_LONGEST = 200  # characters of a command line


class Process:
    """pid and started (in ticks since the boot) name it: numbers are used again. rank, size, job: of a rank."""

    def __init__(self, pid: int, started: int) -> None:
        self.pid = pid
        self.started = started
        self.command = _shown(_bytes(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" "))
        entries = dict(word.partition(b"=")[::2] for word in _bytes(pid, "environ").split(b"\0"))
        self.rank, self.size = (_number(entries.get(name)) for name in _RANK[:2])
        self.job = os.fsdecode(entries.get(_RANK[2], b"?"))

    def as_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {"pid": self.pid, "command": self.command}
        return values if self.rank is None else {**values, "job": self.job, "rank": self.rank, "size": self.size}


def of_this_user() -> list[Process]:
    """In the order of their numbers. A process that the kernel does not show to this one is not among them."""
    found = []
    for pid in sorted(numbers()):
        life = life_of(pid)
        if life is not None and has_fastsock(pid):
            found.append(Process(pid, life[0]))
    return found


def numbers() -> Iterator[int]:
    """Of the processes of this user."""
    own = os.geteuid()
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and entry.stat().st_uid == own:
                yield int(entry.name)
        except OSError:  # it has ended
            continue


def life_of(pid: int) -> tuple[int, int] | None:
    """When a process began, and where its stack begins: another place after exec, 0 where it is not to be known.

    None: there is no such process, or it has ended and nobody has asked for its status.
    """
    _, _, after = _bytes(pid, "stat").rpartition(b") ")  # its name may have brackets and spaces
    fields = after.split()
    return (int(fields[19]), int(fields[25])) if len(fields) > 25 and fields[0] not in (b"Z", b"X") else None


def is_same(pid: int, started: int, stack: int) -> bool:
    """Whether a process still is the one, and the program, that had these."""
    life = life_of(pid)
    return life is not None and life[0] == started and (life[1] == stack or 0 in (life[1], stack))


def descriptors(pid: int) -> list[int]:
    """The numbers of a process."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def file_of(pid: int, descriptor: int) -> int | None:
    """The number of a socket's file. Not 0: the kernel names connections so that have no file any more."""
    try:
        target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return None
    return int(target[8:-1]) if target.startswith("socket:[") else None


def has_fastsock(pid: int) -> bool:
    mapped = _bytes(pid, "maps")
    return any(library in mapped for library in _LIBRARIES)


def _shown(command: bytes) -> str:
    """For a terminal, which must not obey it."""
    text = command.decode(errors="replace")[:_LONGEST]
    return "".join(each if each.isprintable() else "?" for each in text)


def _bytes(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended, or is not to be looked at
        return b""


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
