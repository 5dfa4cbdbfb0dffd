"""What `fastsock run` would give to a program, as far as its file and its interpreter tell.

`fastsock run` becomes the program, and must not pay for modules that only some of this needs: they are imported there.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import sys

from . import children, preloading
from .options import interpreter_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_INTERPRETERS = 4  # of scripts of scripts
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB = 1, 5
_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}
_PYTHON = r"(python|pypy)[\d.]*[a-z]*"
_RINGS = (b"io_uring_queue_init", b"io_uring_queue_mmap")  # names in liburing
_MOST_SEARCHED = 64 << 20  # bytes of a file
_LONGEST = 20.0  # seconds that a Python may take to begin
_ASK = "import socket, sys; print('%d.%d %s' % (sys.version_info[0], sys.version_info[1], 'fastsock' in sys.modules))"


def which(program: str) -> str | None:
    """The file that a shell would start. (shutil, which has this too, imports all kinds of archives.)"""
    if os.sep in program:
        return program if os.path.exists(program) else None
    paths = (os.path.join(folder, program) for folder in os.get_exec_path())
    return next((path for path in paths if os.access(path, os.X_OK) and not os.path.isdir(path)), None)


def found(program: Sequence[str]) -> tuple[str, list[str]] | None:
    """The file to start, and its words. Python's own words are for this Python. None: there is no such program."""
    first = program[0]
    is_option = first[:2] in ("-m", "-c") or first == "-"
    path = None if is_option else which(first)
    if is_option or (first.endswith((".py", ".pyz")) and (path is None or os.path.exists(first))):
        return sys.executable, [sys.executable, *program]
    return None if path is None else (path, list(program))


def chain(path: str) -> Iterator[tuple[str, list[str]]]:
    """The file, and while it is a script the interpreter that its first line names, with the words of that line."""
    words: list[str] = []
    for _ in range(_MOST_INTERPRETERS):
        yield path, words
        try:
            with open(path, "rb") as file:
                head = file.read(256)
        except OSError:
            return  # to start it says more
        if not head.startswith(b"#!"):
            return
        path, *words = os.fsdecode(head[2:].split(b"\n")[0]).split() or [""]
        if os.path.basename(path) == "env":
            while words and (words[0].startswith("-") or "=" in words[0]):
                words.pop(0)
            path, *words = [which(words[0]) or "", *words[1:]] if words else [""]
        if not path:
            return


def obstacle(path: str) -> str | None:
    """Why the library cannot enter that program, in a sentence that says what to do; None: it can, as far as the file
    tells."""
    *_, (last, _) = chain(path)
    try:
        return _obstacle(last)
    except (OSError, struct.error):
        return None  # to start it says more


def described(program: Sequence[str]) -> tuple[list[str], bool]:
    """Sentences on what `fastsock run` would do with a command line, and whether the program is entered.

    Raises LookupError if there is no such program.
    """
    import re

    start = found(program)
    if start is None:
        raise LookupError(f"there is no program {program[0]}")
    path, words = start
    lines: list[str] = []
    links = list(chain(path))
    lines += [f"{script} is a script, which {runs} runs." for (script, _), (runs, _) in itertools.pairwise(links)]
    last, of_line = links[-1]
    if not os.access(last, os.X_OK) or os.path.isdir(last):
        return [*lines, f"{last} cannot be started: it is no program that this user may run."], False
    options = of_line if len(links) > 1 else words[1:]
    try:
        environ = dict(os.environ)
        preloading.cover(environ)
        children.cover(environ)
    except preloading.CannotPreload as error:
        return [*lines, f"No program gets the library: {error}."], False
    try:
        why_not = _obstacle(last)
        rings = why_not is None and "liburing" in " ".join(_Executable(last).needed())
    except (OSError, struct.error):
        return [*lines, f"{last} is neither an executable nor a script that names its interpreter."], False
    if why_not is not None:
        return [*lines, f"{why_not}."], False
    if re.fullmatch(_PYTHON, os.path.basename(last)):
        lines.append(_describe_python(last, options, environ))
    elif len(links) > 1:
        lines.append(f"{last} gets the library, and hands it on to what it starts.")
    else:
        lines.append(f"{last} gets the library: its connections gain memory where their other ends have fastsock too.")
    if rings:
        lines.append("It is linked to liburing. io_uring is refused to it: most programs take other calls then.")
    return lines, True


def _describe_python(path: str, options: Sequence[str], environ: dict[str, str]) -> str:
    import subprocess

    before = interpreter_options([path, *options])[0]
    environ = {**environ, "FASTSOCK_TRACE": "1"}  # then a Python that cannot says why
    try:
        command = [path, *before, "-c", _ASK]
        asked = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=_LONGEST)
    except (OSError, subprocess.TimeoutExpired):
        asked = None
    if asked is None or asked.returncode != 0 or len(asked.stdout.split()) != 2:
        return f"{path} is called as a Python is, but does not run Python code: it gets the library alone."
    version, has_class = asked.stdout.split()
    if has_class == "True":
        return f"{path} is a Python {version} that can import fastsock: it gets the class and the library."
    _, found_why, why = asked.stderr.partition("not installed in this process: ")
    if found_why:
        why = f"cannot import fastsock ({why.splitlines()[0]})"
    elif any(option.startswith("-") and set(option) & set("IES") for option in before):
        why = f"does not look at its environment ({' '.join(before)})"
    else:
        why = "is too old for the class"
    return f"{path} is a Python {version} that {why}: it gets the library alone, as any other program."


# ---- files


def _obstacle(path: str) -> str | None:
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    executable, own = _Executable(path), _Executable(sys.executable)
    if executable.kind != own.kind:
        machine = _MACHINES.get(executable.kind[2], f"machine {executable.kind[2]}")
        return (
            f"{path} is of another architecture ({machine}, {32 * executable.kind[0]} bits): it runs without fastsock; "
            "take one of this Python's architecture"
        )
    interpreter = executable.interpreter()
    if b".go.buildinfo" in executable.sections():
        return f"{path} is written in Go, which calls the kernel past the C library: its sockets stay on TCP"
    if interpreter is None:
        return f"{path} is linked statically, and runs without fastsock: link it to the C library dynamically"
    if ("musl" in interpreter) != ("musl" in (own.interpreter() or "")):
        return f"{path} has another C library ({interpreter}), and runs without fastsock: install fastsock there"
    if _gains_rights(path):
        return f"{path} runs with other rights than its user's, so the loader preloads nothing: start it as that user"
    if executable.has(_RINGS) and not any("liburing" in name for name in executable.needed()):
        return (
            f"{path} has liburing inside, or opens it later, and its calls go past the library: switch its use of "
            "io_uring off, or run it without fastsock"
        )
    return None


class _Executable:
    """An ELF file. struct.error: it is none, or not whole."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            try:
                self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # nothing is in it
                raise struct.error("no ELF file") from None
        if self.bytes[:4] != b"\x7fELF" or len(self.bytes) < 64:
            raise struct.error("no ELF file")
        self._order = "<" if self.bytes[5] == 1 else ">"
        self._wide = self.bytes[4] == 2
        where = "QQ" if self._wide else "II"
        self._segments_at, self._sections_at = self._read(where, 32 if self._wide else 28)
        sizes = self._read("6H", 52 if self._wide else 40)
        _, self._segment_size, self._segments, self._section_size, self._sections, self._names_at = sizes

    @property
    def kind(self) -> tuple[int, int, int]:
        """Class, byte order, machine."""
        return self.bytes[4], self.bytes[5], self._read("H", 18)[0]

    def _read(self, form: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self._order + form, self.bytes, at)

    def _of_kind(self, kind: int) -> Iterator[tuple[int, int, int]]:
        """Offset, address and length in the file of each segment of a kind."""
        for at in range(self._segments_at, self._segments_at + self._segments * self._segment_size, self._segment_size):
            if self._read("I", at)[0] == kind:
                offset, address, _, length = self._read("4Q" if self._wide else "4I", at + (8 if self._wide else 4))
                yield offset, address, length

    def interpreter(self) -> str | None:
        """The loader that it names."""
        for offset, _, length in self._of_kind(_PT_INTERP):
            return os.fsdecode(self.bytes[offset : offset + length].rstrip(b"\0"))
        return None

    def sections(self) -> bytes:
        """The names of its sections."""
        if self._names_at >= self._sections:
            return b""
        at = self._sections_at + self._names_at * self._section_size
        offset, length = self._read("QQ", at + 24) if self._wide else self._read("II", at + 16)
        return self.bytes[offset : offset + length]

    def needed(self) -> list[str]:
        """The libraries that it names."""
        form, size = ("QQ", 16) if self._wide else ("II", 8)
        names, table = [], None
        for offset, _, length in self._of_kind(_PT_DYNAMIC):
            for at in range(offset, offset + length, size):
                kind, value = self._read(form, at)
                if kind == _DT_NEEDED:
                    names.append(value)
                elif kind == _DT_STRTAB:
                    table = value
        for offset, address, length in self._of_kind(_PT_LOAD):
            if table is not None and address <= table < address + length:
                begin = offset + table - address
                return [self._text(begin + name) for name in names]
        return []

    def _text(self, at: int) -> str:
        return os.fsdecode(self.bytes[at : max(self.bytes.find(b"\0", at), at)])

    def has(self, words: Sequence[bytes]) -> bool:
        """Whether one of these is somewhere in it."""
        return len(self.bytes) <= _MOST_SEARCHED and any(self.bytes.find(word) >= 0 for word in words)


def _gains_rights(path: str) -> bool:
    seen = os.stat(path)
    if seen.st_mode & 0o4000 and seen.st_uid != os.geteuid():
        return True
    if seen.st_mode & 0o2000 and seen.st_gid != os.getegid():
        return True
    try:
        return os.geteuid() != 0 and bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False
