"""The key by which processes of one user know each other: a file that the first of them makes.

The file is `$XDG_CONFIG_HOME/fastsock/rmi.key` (`~/.config/...` where that is not set), of mode 0600. FASTSOCK_RMI_KEY,
or a key that the program gives, stands in its place.
"""

from __future__ import annotations

import os
from stat import S_ISREG

from .originals import originals
from .proof import new_secret

VARIABLE = "FASTSOCK_RMI_KEY"
SHORTEST = 16
_LONGEST = 4096
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_join, _dirname, _expanduser = os.path.join, os.path.dirname, os.path.expanduser
_makedirs, _link, _unlink = os.makedirs, os.link, os.unlink


class KeyRefused(ConnectionError):
    """The key is too short, or others can read it."""


def key_of(given: str | bytes | None = None) -> bytes:
    """The key to use: the one given, else that of the environment, else that of the user's file, which may be made.

    Raises KeyRefused where the key is shorter than 16 bytes, or the file is another user's, or others may read it.
    """
    source = "key="
    if given is None:
        source, given = VARIABLE, os.environ.get(VARIABLE) or None
    if given is None:
        return _of_file(path_of_file())
    if not isinstance(given, (str, bytes)):
        raise TypeError(f"key is {given!r}: give text or bytes, or None")
    key = given.encode() if isinstance(given, str) else given
    if len(key) < SHORTEST:
        raise KeyRefused(f"the key of {source} has {len(key)} bytes: give at least {SHORTEST}")
    return key


def path_of_file() -> str:
    """Where the user's key is kept."""
    folder = os.environ.get("XDG_CONFIG_HOME") or _join(_expanduser("~"), ".config")
    return _join(folder, "fastsock", "rmi.key")


def _of_file(path: str) -> bytes:
    try:
        return _read(path)
    except FileNotFoundError:
        try:
            _make(path)
        except OSError as error:
            raise KeyRefused(
                f"no key for this user: {path} cannot be made ({error}); set {VARIABLE} or give key="
            ) from error
        return _read(path)
    except KeyRefused:
        raise
    except OSError as error:
        raise KeyRefused(
            f"the key of this user in {path} cannot be read ({error.strerror}); set {VARIABLE} or give key="
        ) from error


def _read(path: str) -> bytes:
    number = originals.open(path, _READ_ONLY)
    try:
        found = originals.fstat(number)
        if found.st_uid != originals.geteuid():
            raise KeyRefused(f"the key in {path} belongs to user {found.st_uid}: it is not used")
        if not S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise KeyRefused(f"others may read or write the key in {path}: it is not used; remove it, or chmod 600 it")
        key: bytes = originals.read(number, _LONGEST)
    finally:
        originals.close(number)
    key = key.strip()
    if len(key) < SHORTEST:
        raise KeyRefused(f"the key in {path} has {len(key)} bytes: {SHORTEST} is the least; remove the file")
    return key


def _make(path: str) -> None:
    """Whoever comes first gives the file its name, complete; the others read it."""
    _makedirs(_dirname(path), mode=0o700, exist_ok=True)
    own = f"{path}.{originals.getpid()}.{new_secret()[:8].hex()}"
    number = originals.open(own, _NEW, 0o600)
    try:
        try:
            originals.write(number, new_secret().hex().encode() + b"\n")
        finally:
            originals.close(number)
        try:
            _link(own, path)
        except FileExistsError:
            return
    finally:
        _unlink(own)
