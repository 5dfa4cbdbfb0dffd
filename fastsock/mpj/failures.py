"""Errors of the engine, said as the standard's error classes."""

from __future__ import annotations

from fastsock.core.binding._requests import CLOSED, NO_MEMORY, PEER_FAILED, PROTOCOL, REVOKED, TRUNCATED, MessageError

from .constants import (
    ERR_INTERN,
    ERR_NO_MEM,
    ERR_OTHER,
    ERR_PROC_FAILED,
    ERR_PROC_FAILED_PENDING,
    ERR_REVOKED,
    ERR_TRUNCATE,
)
from .exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CLASSES = {
    TRUNCATED: ERR_TRUNCATE,
    PEER_FAILED: ERR_PROC_FAILED,
    PROTOCOL: ERR_PROC_FAILED,
    CLOSED: ERR_OTHER,
    NO_MEMORY: ERR_NO_MEM,
    REVOKED: ERR_REVOKED,
}


def error_class(error: MessageError) -> int:
    """Returns the error class of an error of the engine."""
    if error.may_go_on:
        return ERR_PROC_FAILED_PENDING
    return _CLASSES.get(error.code, ERR_INTERN)


def translated(error: BaseException, communicator: Any) -> BaseException:
    """Returns the MPI exception for an error of the engine. Any other exception is returned as it is."""
    if isinstance(error, MPIException) or not isinstance(error, MessageError):
        return error
    text = str(error)
    peer = getattr(error, "peer", None)
    if peer is not None and communicator.index is not None and peer in communicator.index:
        text += f" (rank {communicator.index[peer]} of {communicator.title})"
    of_this_job = peer is not None and 0 <= peer < communicator.world.size
    if of_this_job and error_class(error) in (ERR_PROC_FAILED, ERR_PROC_FAILED_PENDING):
        why = communicator.world.job.failure_text(peer)  # the connection ends a moment before the death is told
        if why is not None and why not in text:
            text += f": {why}"
    exception = MPIException(error_class(error), text)
    exception.__cause__ = error
    return exception
