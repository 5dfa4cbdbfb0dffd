"""A folder that holds Debian's unstable with its Pythons, entered by chroot: nothing of this machine changes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
NEEDED = ("gcc", "libc6-dev", "make", "ca-certificates")
OF_A_PYTHON = ("{}", "{}-venv", "{}-dev", "lib{}-testsuite")

# The mounts are in a namespace of their own, which ends with the command: so the folder can be deleted at any time.
_ENTER = """
mount --bind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" sh -c 'cd "$0" && exec "$@"' "$@"
"""
# They tell of this machine's compiler, Python and files.
_NOT_IN_THERE = re.compile(r"(CC|CXX|CFLAGS|CPPFLAGS|LDFLAGS|PIP_FIND_LINKS|PYTHON.*|VIRTUAL_ENV|TMPDIR)$")


class Unavailable(Exception):
    """There can be no such folder here; the text says why."""


def check() -> None:
    """Raises Unavailable where the folder could not be made or entered."""
    if os.geteuid() != 0:
        raise Unavailable("it needs root, for chroot")
    if shutil.which("apt-get") is None:
        raise Unavailable("there is no apt-get here")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        raise Unavailable("this system permits no mounts (unshare --mount)")
    if shutil.which("debootstrap") is None:
        command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "debootstrap"]
        _run(command, "debootstrap could not be installed", {"DEBIAN_FRONTEND": "noninteractive"})


def mirror() -> str:
    """Where this machine's own apt finds Debian."""
    form = "$(REPO_URI)|$(ORIGIN)|$(LABEL)"
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", form, "Created-By: Packages"], capture_output=True, text=True
    ).stdout
    for line in told.splitlines():
        address, origin, label = line.split("|")
        if origin == label == "Debian":  # not its security archive, which has no unstable
            return address
    raise Unavailable("apt is not set up with a mirror of Debian here; run `apt-get update` first")


def make(folder: Path, pythons: Sequence[str]) -> None:
    """Fills `folder` with Debian's unstable, a compiler and these Pythons, such as "3.14"."""
    check()
    packages = [*NEEDED, *(form.format(f"python{version}") for version in pythons for form in OF_A_PYTHON)]
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
    if KEYS.exists():
        command.append(f"--keyring={KEYS}")
    _run([*command, "sid", str(folder), mirror()], "Debian's unstable could not be fetched")
    shutil.copy("/etc/resolv.conf", folder / "etc")
    if CERTIFICATES.exists():  # with those that this machine trusts besides
        shutil.copy(CERTIFICATES, folder / "etc/ssl/certs")


def inside(folder: Path, where: str, command: Sequence[str], **variables: str) -> list[str]:
    """The command line that runs `command` in there, in the directory `where`."""
    settings = [f"--unset={name}" for name in os.environ if _NOT_IN_THERE.match(name)]
    settings += [f"{name}={value}" for name, value in variables.items()]
    return ["unshare", "--mount", "sh", "-c", _ENTER, str(folder), where, "env", *settings, *command]


def run(folder: Path, where: str, command: Sequence[str], **variables: str) -> int:
    """Runs a command in there; its exit status."""
    return subprocess.run(inside(folder, where, command, **variables)).returncode


def end_all(folder: Path) -> None:
    """Kills what still runs in there: the tests start processes in sessions of their own."""
    root = str(folder.resolve())
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):  # it ended
                if os.readlink(f"/proc/{entry}/root") == root:
                    os.kill(int(entry), signal.SIGKILL)


def _run(command: list[str], what: str, variables: dict[str, str] | None = None) -> None:
    with tempfile.TemporaryFile("w+") as said:
        status = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, **(variables or {})}
        ).returncode
        if status != 0:
            said.seek(0)
            raise Unavailable(f"{what}:\n  " + "\n  ".join(said.read().splitlines()[-5:]))
