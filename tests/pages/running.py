"""Runs a block of a page in a folder that looks like a checkout: as a reader does who copies it.

The names and ports at which the page's programs listen are made this run's own. So pages can be run beside each other,
and beside programs of this machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..helpers.programs import free_port
from .page import Block, Page

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 100.0
LISTENS = "0A"  # a state of /proc/net/tcp
LINKED = ("bench", "docs", "examples", "tests")
NETWORK = ("unshare", "--user", "--map-root-user", "--net")
LOOPBACK = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")


class WrongBlock(AssertionError):
    """A block of a page does not do what the page says."""


class Run:
    """A folder in which blocks of a page are run."""

    def __init__(self, page: Page, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._own = {name: _own_name(name) for name in page.served()}
        for name in LINKED:
            (folder / name).symlink_to(ROOT / name)
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / "python").chmod(0o755)
        for name, source in page.files.items():
            (folder / name).write_text(self._worded(source.text))
        path = os.pathsep.join([str(programs), sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
        self._environment = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "FASTSOCK_MEETING_MS": "2000",  # a busy machine is no failure
        }

    def block(self, block: Block) -> str:
        """Runs a block: its output. Raises WrongBlock."""
        with contextlib.ExitStack() as stack:
            for name in block.beside:
                stack.enter_context(self.serving(f"python {name}", self._page.files[name].serves))
            if block.together:
                *others, last = block.commands()
                for number, command in enumerate(others):
                    stack.enter_context(self.serving(command, None if number else block.together))
                return self._ending(block, last)
            if block.serves:
                with self.serving(self._command(block), block.serves):
                    return ""
            return self._ending(block, self._command(block))

    def _command(self, block: Block) -> str:
        if block.run:
            return block.run
        return "\n".join(block.commands()) if block.is_shell else f"python {block.file}"

    def _ending(self, block: Block, command: str) -> str:
        process = self._start(command, alone=bool(block.alone))
        try:
            said, _ = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            _end(process)
            raise WrongBlock(f"{block.page}:{block.line} does not end:\n{process.communicate()[0]}") from None
        if process.returncode != 0:
            raise WrongBlock(f"{block.page}:{block.line} ended with {process.returncode}:\n{said}")
        for text in block.prints:
            if self._worded(text) not in said:
                raise WrongBlock(f"{block.page}:{block.line} does not print {text!r}:\n{said}")
        return said

    @contextlib.contextmanager
    def serving(self, command: str, name: str | None) -> Iterator[None]:
        """The command runs in the block, and listens at its name."""
        with self._start(command) as process:
            try:
                if name is not None:
                    self._await(process, self._own[name])
                yield
                if process.poll():
                    raise WrongBlock(f"{command!r} ended with {process.returncode}:\n{process.communicate()[0]}")
            finally:
                _end(process)

    def _await(self, process: subprocess.Popen[str], name: str) -> None:
        for _ in range(round(DEADLINE / 0.01)):
            if _listens(name):
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
                break
        _end(process)
        raise WrongBlock(f"{process.args!r} does not listen at {name}:\n{process.communicate()[0]}")

    def _start(self, command: str, *, alone: bool = False) -> subprocess.Popen[str]:
        apart = [*NETWORK, *LOOPBACK] if alone and has_networks() else []
        return subprocess.Popen(
            [*apart, "bash", "-euo", "pipefail", "-c", self._worded(command)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _worded(self, text: str) -> str:
        for word, meaning in self._page.meanings.items():
            text = re.sub(rf"\b{word}\b", meaning, text)
        for name, own in self._own.items():
            here = rf"\b{name}\b" if name.isdigit() else rf"""(?<=["':/]){re.escape(name)}(?=["'])"""
            text = re.sub(here, own, text)
        return text


@cache
def has_networks() -> bool:
    """Whether a program can have a network of its own here."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run([*NETWORK, *LOOPBACK, "true"], capture_output=True).returncode == 0


def _own_name(name: str) -> str:
    return str(free_port()) if name.isdigit() else f"{name}-{secrets.token_hex(4)}"


def _listens(name: str) -> bool:
    if not name.isdigit():
        return name in Path("/proc/net/unix").read_text()
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()]
    return any(row[1].endswith(f":{int(name):04X}") and row[3] == LISTENS for row in rows)


def _end(process: subprocess.Popen[str]) -> None:
    """The process, and those that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
