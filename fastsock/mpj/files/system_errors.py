"""Errors of the system, said as the standard's error classes."""

from __future__ import annotations

import errno

from ..constants import (
    ERR_ACCESS,
    ERR_BAD_FILE,
    ERR_FILE,
    ERR_FILE_EXISTS,
    ERR_FILE_IN_USE,
    ERR_IO,
    ERR_NO_MEM,
    ERR_NO_SPACE,
    ERR_NO_SUCH_FILE,
    ERR_QUOTA,
    ERR_READ_ONLY,
    ERR_UNSUPPORTED_OPERATION,
)
from ..exceptions import Exception as MPIException

_CLASSES = {
    errno.ENOENT: ERR_NO_SUCH_FILE,
    errno.EEXIST: ERR_FILE_EXISTS,
    errno.EACCES: ERR_ACCESS,
    errno.EPERM: ERR_ACCESS,
    errno.EROFS: ERR_READ_ONLY,
    errno.ENOSPC: ERR_NO_SPACE,
    errno.EFBIG: ERR_NO_SPACE,
    errno.EOVERFLOW: ERR_NO_SPACE,
    errno.EDQUOT: ERR_QUOTA,
    errno.EBUSY: ERR_FILE_IN_USE,
    errno.ETXTBSY: ERR_FILE_IN_USE,
    errno.EISDIR: ERR_BAD_FILE,
    errno.ENOTDIR: ERR_BAD_FILE,
    errno.ENAMETOOLONG: ERR_BAD_FILE,
    errno.ELOOP: ERR_BAD_FILE,
    errno.EBADF: ERR_FILE,
    errno.ESTALE: ERR_FILE,
    errno.ENOMEM: ERR_NO_MEM,
    errno.ESPIPE: ERR_UNSUPPORTED_OPERATION,
    errno.ENODEV: ERR_UNSUPPORTED_OPERATION,
    errno.ENOLCK: ERR_UNSUPPORTED_OPERATION,
    errno.EOPNOTSUPP: ERR_UNSUPPORTED_OPERATION,
}
_ADVICE = {
    ERR_NO_SUCH_FILE: "check the path, or open it with MODE_CREATE",
    ERR_FILE_EXISTS: "delete it first, or open it without MODE_EXCL",
    ERR_ACCESS: "the user of this program needs the permission",
    ERR_READ_ONLY: "write to another file system",
    ERR_NO_SPACE: "make room on the disk, or raise the limit of file sizes (ulimit -f)",
    ERR_QUOTA: "the user's quota is used up",
    ERR_BAD_FILE: "the path of a regular file is wanted",
    ERR_UNSUPPORTED_OPERATION: "this kind of file, or its file system, cannot do that",
}


def told(number: int, reason: str, what: str) -> MPIException:
    """Returns the exception for an error number of the system; `what`: what failed, with which file."""
    code = _CLASSES.get(number, ERR_IO)
    advice = _ADVICE.get(code)
    return MPIException(code, f"{what}: {reason}: {advice}" if advice else f"{what}: {reason}")
