"""Names of services: ports that other jobs of this user find on this host (MPI 4.1, section 11.9.4).

A name is a file that only its user can read. Its publisher holds a lock on it, so the name of a program that was killed
is not taken for one that lives.
"""

from __future__ import annotations

import binascii
import contextlib
import os

from .. import ranks
from ..constants import ERR_NAME, ERR_SERVICE
from ..info import INFO_NULL, Info

_READ_WRITE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_published: dict[str, int] = {}  # the descriptors with the locks, by name


def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Let other programs of this user on this host find a port by a name, until this program ends.

    Raises MPI.Exception (ERR_SERVICE) where a program that runs has published the name already.
    """
    from fcntl import LOCK_EX, LOCK_NB, flock

    path = _path(service_name)
    while True:
        descriptor = os.open(path, _READ_WRITE | os.O_CREAT, 0o600)
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise _failed(ERR_SERVICE, f"the name {service_name!r} is published already") from None
        if _is_there(path, descriptor):
            break
        os.close(descriptor)  # somebody has removed it meanwhile
    os.ftruncate(descriptor, 0)
    os.write(descriptor, port_name.encode())
    _published[service_name] = descriptor


def Unpublish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Take back a name that this program has published. Raises MPI.Exception (ERR_SERVICE) where it has not."""
    descriptor = _published.pop(service_name, None)
    if descriptor is None:
        raise _failed(ERR_SERVICE, f"this program has not published the name {service_name!r}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(service_name))
    os.close(descriptor)


def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    """Return the port that a program of this user on this host has published by a name.

    Raises MPI.Exception (ERR_NAME) where no program that runs has.
    """
    from fcntl import LOCK_NB, LOCK_SH, flock

    path = _path(service_name)
    try:
        descriptor = os.open(path, _READ_WRITE)
    except FileNotFoundError:
        raise _failed(ERR_NAME, f"nobody has published the name {service_name!r} on this host") from None
    try:
        with contextlib.suppress(BlockingIOError):  # its publisher lives
            flock(descriptor, LOCK_SH | LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if _is_there(path, descriptor):
                    os.unlink(path)
            raise _failed(ERR_NAME, f"the program that published the name {service_name!r} has ended")
        port = b""
        while part := os.read(descriptor, 4096):
            port += part
    finally:
        os.close(descriptor)
    if not port:  # it is being written
        raise _failed(ERR_NAME, f"nobody has published the name {service_name!r} on this host")
    return port.decode()


def _path(service_name: str) -> str:
    """Where the file of a name is. Raises MPI.Exception (ERR_NAME) for an empty one."""
    if not service_name:
        raise _failed(ERR_NAME, "a name of a service cannot be empty")
    user = os.geteuid()
    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/fastsock-{user}", "fastsock-services")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.stat(folder, follow_symlinks=False)
    if found.st_uid != user or found.st_mode & 0o077:
        raise _failed(ERR_SERVICE, f"{folder} can be read by others: remove it")
    return os.path.join(folder, binascii.hexlify(service_name.encode()).decode()[:200])


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _failed(code: int, detail: str) -> BaseException:
    failed: BaseException = ranks.current().everyone.fail(code, detail)
    return failed
