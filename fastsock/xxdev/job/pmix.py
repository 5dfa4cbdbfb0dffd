"""The small part of PMIx that a rank needs, called in the launcher's own client library.

PMIx has no protocol that stays the same between its versions, only a C interface: so the library that belongs to the
launcher is found, and called through ctypes.
"""

from __future__ import annotations

import ctypes
import os

from .addresses import WireupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SUCCESS = 0
_GLOBAL = 3
_STRING = 3
_UINT32 = 14
_RANK_WILDCARD = 2**32 - 2
_LIBRARY = "libpmix.so.2"


class _Proc(ctypes.Structure):
    _fields_ = (("nspace", ctypes.c_char * 256), ("rank", ctypes.c_uint32))


class _Data(ctypes.Union):
    _fields_ = (("string", ctypes.c_char_p), ("uint32", ctypes.c_uint32), ("largest", ctypes.c_char * 24))


class _Value(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint16), ("data", _Data))


class Pmix:
    """A connection to the local PMIx server. Raises WireupError where there is none, or no library to talk to it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._library = _load(environ)
        self._own = _Proc()
        self._check("PMIx_Init", self._library.PMIx_Init(ctypes.byref(self._own), None, ctypes.c_size_t(0)))

    def size(self) -> int:
        """How many ranks the job has."""
        value = self._get(_RANK_WILDCARD, b"pmix.job.size")
        if value.type != _UINT32:
            raise WireupError("the PMIx server tells no job size")
        return int(value.data.uint32)

    def put(self, key: str, text: str) -> None:
        """Visible to other ranks after a fence."""
        value = _Value(_STRING)
        value.data.string = text.encode()
        self._check(
            "PMIx_Put", self._library.PMIx_Put(ctypes.c_uint8(_GLOBAL), _key(key.encode()), ctypes.byref(value))
        )
        self._check("PMIx_Commit", self._library.PMIx_Commit())

    def fence(self) -> None:
        """Until all ranks are here."""
        self._check("PMIx_Fence", self._library.PMIx_Fence(None, ctypes.c_size_t(0), None, ctypes.c_size_t(0)))

    def get(self, rank: int, key: str) -> str:
        """What that rank has put."""
        value = self._get(rank, key.encode())
        if value.type != _STRING:
            raise WireupError(f"rank {rank} has left something else than text as {key} at the PMIx server")
        return bytes(value.data.string or b"").decode()

    def finalize(self) -> None:
        """From now on the end of this process is no failure to the launcher."""
        self._library.PMIx_Finalize(None, ctypes.c_size_t(0))

    def _get(self, rank: int, key: bytes) -> _Value:
        proc = _Proc(self._own.nspace, rank)
        found = ctypes.POINTER(_Value)()
        status = self._library.PMIx_Get(ctypes.byref(proc), _key(key), None, ctypes.c_size_t(0), ctypes.byref(found))
        self._check(f"PMIx_Get of {key.decode()}", status)
        return found.contents

    @staticmethod
    def _check(call: str, status: int) -> None:
        if status != _SUCCESS:
            raise WireupError(f"{call} failed with status {status}: this launcher's PMIx server does not help")


def _key(key: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(key, 512)


def _load(environ: Mapping[str, str]) -> ctypes.CDLL:
    tried = []
    for path in _candidates(environ):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
    raise WireupError(f"no PMIx library of the launcher can be loaded ({'; '.join(tried)})")


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    """Where the launcher's library may be: what it says, what the process that started this one uses, the system's."""
    for name, below in (
        ("PMIX_PREFIX", "lib"),
        ("PMIX_PREFIX", "lib64"),
        ("OMPI_LIBDIR_LOC", ""),
        ("OPAL_PREFIX", "lib"),
    ):
        if name in environ:
            for folder in ("", "openmpi", "pmix/lib"):
                path = os.path.join(environ[name], below, folder, _LIBRARY)
                if os.path.exists(path):
                    yield path
    try:
        with open(f"/proc/{os.getppid()}/maps", encoding="utf-8", errors="surrogateescape") as file:
            yield from dict.fromkeys(line.split(None, 5)[5].strip() for line in file if "/libpmix.so" in line)
    except (OSError, IndexError):
        pass
    yield _LIBRARY
