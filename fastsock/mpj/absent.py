"""Parts of the standard that are not there: dynamic processes. Their calls say so."""

from __future__ import annotations

from .info import INFO_NULL, Info

DYNAMIC = "dynamic processes are not there; start all ranks together, with python -m fastsock.mpj.run -n N"


def Open_port(info: Info = INFO_NULL) -> str:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Close_port(port_name: str) -> None:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Unpublish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)
