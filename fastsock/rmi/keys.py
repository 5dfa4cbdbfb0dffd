"""The key by which processes of one user know each other: a file that the first of them makes.

The file is `$XDG_CONFIG_HOME/fastsock/rmi.key` (`~/.config/...` where that is not set), of mode 0600. FASTSOCK_RMI_KEY,
or the argument `key`, stands in its place.
"""

from __future__ import annotations

import os
import stat

from ..system.genuine import genuine
from ..system.proof import new_secret
from .errors import Refused

VARIABLE = "FASTSOCK_RMI_KEY"
SHORTEST = 16
_LONGEST = 4096


def key_of(given: str | bytes | None = None) -> bytes:
    """The key to use: the one given, else that of the environment, else that of the user's file, which may be made.

    Raises Refused where the key is shorter than 16 bytes, or the file is another user's, or others may read it.
    """
    source = "key="
    if given is None:
        source, given = VARIABLE, os.environ.get(VARIABLE) or None
    if given is None:
        return _of_file(path_of_file())
    key = given.encode() if isinstance(given, str) else bytes(given)
    if len(key) < SHORTEST:
        raise Refused(f"the key of {source} has {len(key)} bytes: give at least {SHORTEST}")
    return key


def path_of_file() -> str:
    """Where the user's key is kept."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "fastsock", "rmi.key")


def _of_file(path: str) -> bytes:
    try:
        return _read(path)
    except FileNotFoundError:
        try:
            _make(path)
        except OSError as error:
            raise Refused(
                f"no key for this user: {path} cannot be made ({error}); set {VARIABLE} or give key="
            ) from error
        return _read(path)


def _read(path: str) -> bytes:
    number = genuine.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        found = genuine.fstat(number)
        if found.st_uid != genuine.geteuid():
            raise Refused(f"the key in {path} belongs to user {found.st_uid}: it is not used")
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise Refused(f"others may read or write the key in {path}: it is not used; remove it, or chmod 600 it")
        key: bytes = genuine.read(number, _LONGEST)
    finally:
        genuine.close(number)
    key = key.strip()
    if len(key) < SHORTEST:
        raise Refused(f"the key in {path} has {len(key)} bytes: {SHORTEST} is the least; remove the file")
    return key


def _make(path: str) -> None:
    """Whoever comes first gives the file its name, complete; the others read it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    own = f"{path}.{genuine.getpid()}.{new_secret()[:8].hex()}"
    number = genuine.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            genuine.write(number, new_secret().hex().encode() + b"\n")
        finally:
            genuine.close(number)
        try:
            os.link(own, path)
        except FileExistsError:
            return
    finally:
        os.unlink(own)
