"""The preloaded library (core/preload): where it is, how a program gets it, and what it cannot enter."""

from __future__ import annotations

import os
import shutil
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from ..config import Rule, Settings

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY = os.path.join(_PACKAGE, "core", "preload", "libfastsock_preload.so")
PRELOAD = "LD_PRELOAD"
RULES = "FASTSOCK_RESOLVED_RULES"

_MOST_INTERPRETERS = 4  # of scripts of scripts
_PT_INTERP = 3
_MOST_RULES = 100_000  # characters: the kernel takes no variable of 128 KiB


class CannotPreload(Exception):
    """The library cannot be preloaded. The text says why, and what to do."""


def cover(environ: MutableMapping[str, str]) -> None:
    """Change an environment so that programs started with it get the library. Other preloads stay. Idempotent."""
    if not os.path.exists(LIBRARY):
        raise CannotPreload(f"{LIBRARY} is missing: install fastsock where there is a C compiler")
    if any(separator in LIBRARY for separator in " :"):
        raise CannotPreload(f"{LIBRARY} has a space or a colon in its path, which {PRELOAD} cannot name")
    others = [entry for entry in environ.get(PRELOAD, "").replace(":", " ").split() if entry != LIBRARY]
    environ[PRELOAD] = " ".join([LIBRARY, *others])


def hand_on_rules(settings: Settings, environ: MutableMapping[str, str]) -> None:
    """Give the library the rules of FASTSOCK_CONFIG, resolved: it looks up no name. core/preload/rules.c has the form.

    They are named after their file: where a program gives its children another FASTSOCK_CONFIG, these stay on TCP.
    """
    environ.pop(RULES, None)
    file = environ.get("FASTSOCK_CONFIG", "")
    if not file:
        return
    entries = [entry for rule in settings.rules for entry in _resolved(rule)]
    text = " ".join(["1", str(len(entries)), *entries, file])
    if len(os.fsencode(text)) > _MOST_RULES:
        raise CannotPreload(f"{file} has more rules than programs can be given: write fewer, of networks as 10.0.0.0/8")
    environ[RULES] = text


def _resolved(rule: Rule) -> Iterator[str]:
    """One entry for each network."""
    networks = ["*"]
    if rule.networks is not None:
        networks = [f"{number:0{bits // 4}x}/{mask.bit_count()}" for bits, number, mask in rule.networks]
    paths = ",".join(rule.transports)
    for network in networks:
        ports = f"{rule.first_port}-{rule.last_port}"
        yield f"{rule.direction} {network} {ports} {int('shm' in rule.transports)} {rule.line or 0} {rule.host} {paths}"


def which(program: str) -> str | None:
    """The file that a shell would start."""
    return program if os.sep in program and os.path.exists(program) else shutil.which(program)


def obstacle(path: str) -> str | None:
    """Why the library cannot enter that program, in a sentence that says what to do; None: it can, as far as the file
    tells."""
    for _ in range(_MOST_INTERPRETERS):
        try:
            with open(path, "rb") as file:
                head = file.read(256)
        except OSError:
            return None  # to start it says more
        if not head.startswith(b"#!"):
            break
        words = os.fsdecode(head[2:].split(b"\n")[0]).split()
        if words and os.path.basename(words[0]) == "env":
            names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
            words = [shutil.which(names[0]) or ""] if names else []
        if not words or not words[0]:
            return None
        path = words[0]
    return _of_executable(path, head)


def _of_executable(path: str, head: bytes) -> str | None:
    if not head.startswith(b"\x7fELF") or len(head) < 64:
        return None
    if _kind(head) != _own_kind():
        return f"{path} is of another architecture: it runs without fastsock; take one of this Python's architecture"
    interpreter, is_go = _parts(path)
    if is_go:
        return f"{path} is written in Go, which calls the kernel past the C library: its sockets stay on TCP"
    if interpreter is None:
        return f"{path} is linked statically, and runs without fastsock: link it to the C library dynamically"
    if ("musl" in interpreter) != ("musl" in (_parts(sys.executable)[0] or "")):
        return f"{path} has another C library ({interpreter}), and runs without fastsock: install fastsock there"
    if _gains_rights(path):
        return f"{path} runs with other rights than its user's, so the loader preloads nothing: start it as that user"
    return None


def _kind(head: bytes) -> tuple[int, int, bytes]:
    """Class, byte order, machine."""
    return head[4], head[5], head[18:20]


def _own_kind() -> tuple[int, int, bytes]:
    with open(sys.executable, "rb") as file:
        return _kind(file.read(64))


def _parts(path: str) -> tuple[str | None, bool]:
    """The loader that an executable of this machine names, and whether Go's linker has made it."""
    with open(path, "rb") as file:
        head = file.read(64)
        order = "<" if head[5] == 1 else ">"
        wide = head[4] == 2
        where = "QQ" if wide else "II"
        segments, sections = struct.unpack_from(order + where, head, 32 if wide else 28)
        sizes = struct.unpack_from(order + "6H", head, 52 if wide else 40)
        _, segment_size, segment_count, section_size, section_count, names_at = sizes
        interpreter = None
        file.seek(segments)
        table = file.read(segment_size * segment_count)
        for at in range(0, len(table), segment_size):
            if struct.unpack_from(order + "I", table, at)[0] == _PT_INTERP:
                offset, length = _place(order, wide, table, at)
                file.seek(offset)
                interpreter = os.fsdecode(file.read(length).rstrip(b"\0"))
        file.seek(sections)
        table = file.read(section_size * section_count)
        names = b""
        if section_count and names_at < section_count:
            form, at = (
                (order + "QQ", names_at * section_size + 24) if wide else (order + "II", names_at * section_size + 16)
            )
            offset, length = struct.unpack_from(form, table, at)
            file.seek(offset)
            names = file.read(length)
    return interpreter, b".go.buildinfo" in names


def _place(order: str, wide: bool, table: bytes, at: int) -> tuple[int, int]:
    """Of a segment in the file."""
    if wide:
        offset, _, _, length = struct.unpack_from(order + "4Q", table, at + 8)
    else:
        offset, _, _, length = struct.unpack_from(order + "4I", table, at + 4)
    return offset, length


def _gains_rights(path: str) -> bool:
    found = os.stat(path)
    if found.st_mode & 0o4000 and found.st_uid != os.geteuid():
        return True
    if found.st_mode & 0o2000 and found.st_gid != os.getegid():
        return True
    try:
        return os.geteuid() != 0 and bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False
