"""Names of services: ports that other jobs of this user find (MPI 4.1, section 11.9.4).

A name is a file that only its user can read. Its publisher holds a lock on it, so the name of a program that was killed
is not taken for one that lives. The files are this host's, unless FASTSOCK_MPJ_NAMES is a folder that others see too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fastsock.system.proof import hmac_sha256

from .. import ranks
from ..constants import ERR_NAME, ERR_SERVICE
from ..info import INFO_NULL, Info

_FOLDER = "FASTSOCK_MPJ_NAMES"
_READ_WRITE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_published: dict[str, int] = {}  # the descriptors with the locks, by name


def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Let other programs of this user find a port by a name, until this program ends.

    They are on this host, or see the folder FASTSOCK_MPJ_NAMES. Raises MPI.Exception (ERR_SERVICE) where a program that
    runs has published the name already, or the folder of names cannot be used.
    """
    from fcntl import LOCK_EX, LOCK_NB, flock

    with _folder() as folder:
        path = _file(service_name)
        while True:
            descriptor = os.open(path, _READ_WRITE | os.O_CREAT, 0o600, dir_fd=folder)
            try:
                flock(descriptor, LOCK_EX | LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                if not isinstance(error, BlockingIOError):
                    raise
                raise _failed(ERR_SERVICE, f"the name {service_name!r} is published already") from None
            if _is_there(folder, path, descriptor):
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
    with _folder() as folder, contextlib.suppress(FileNotFoundError):
        os.unlink(_file(service_name), dir_fd=folder)
    os.close(descriptor)


def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    """Return the port that a program of this user has published by a name, on this host or in FASTSOCK_MPJ_NAMES.

    Raises MPI.Exception: ERR_NAME where no program that runs has, ERR_SERVICE where the folder of names cannot be used.
    """
    from fcntl import LOCK_NB, LOCK_SH, flock

    with _folder() as folder:
        path = _file(service_name)
        try:
            descriptor = os.open(path, _READ_WRITE, dir_fd=folder)
        except FileNotFoundError:
            raise _failed(ERR_NAME, _nobody(service_name)) from None
        try:
            with contextlib.suppress(BlockingIOError):  # its publisher lives
                flock(descriptor, LOCK_SH | LOCK_NB)
                with contextlib.suppress(FileNotFoundError):
                    if _is_there(folder, path, descriptor):
                        os.unlink(path, dir_fd=folder)
                raise _failed(ERR_NAME, f"the program that published the name {service_name!r} has ended")
            port = b""
            while part := os.read(descriptor, 4096):
                port += part
        finally:
            os.close(descriptor)
    if not port:  # it is being written
        raise _failed(ERR_NAME, _nobody(service_name))
    return port.decode()


@contextlib.contextmanager
def _folder() -> Iterator[int]:
    """The folder of the names, open: what somebody puts in its place meanwhile does not matter.

    Raises MPI.Exception (ERR_SERVICE) where it is another's, others can read it, or the system refuses something in it.
    """
    user = os.geteuid()
    path = os.environ.get(_FOLDER) or os.path.join(
        os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/fastsock-{user}", "fastsock-services"
    )
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(folder)
            if found.st_uid != user or found.st_mode & 0o077:
                raise _failed(ERR_SERVICE, f"{path} is another user's, or others can read it: give another {_FOLDER}")
            yield folder
        finally:
            os.close(folder)
    except OSError as error:
        raise _failed(ERR_SERVICE, f"the folder of names {path}: {error}; give another {_FOLDER}") from error


def _nobody(service_name: str) -> str:
    folder = os.environ.get(_FOLDER)
    where = f"in {folder}" if folder else f"on this host; for several set {_FOLDER} to a folder that all see"
    return f"nobody has published the name {service_name!r} {where}"


def _file(service_name: str) -> str:
    """The file of a name. Raises MPI.Exception (ERR_NAME) for an empty one."""
    if not service_name:
        raise _failed(ERR_NAME, "a name of a service cannot be empty")
    return hmac_sha256(b"", service_name.encode()).hex()


def _is_there(folder: int, path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, dir_fd=folder), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _failed(code: int, detail: str) -> BaseException:
    failed: BaseException = ranks.current().everyone.fail(code, detail)
    return failed
