"""What makes a class, and its module, stand in for the standard ones."""

from __future__ import annotations

import _socket
import socket as _standard
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Base: Any = _socket.socket
# These give plain numbers. The properties of the standard class make a member of an enumeration each time.
_family, _kind, _proto = _Base.family.__get__, _Base.type.__get__, _Base.proto.__get__
_WHERE_USERS_FIND_IT = "fastsock.socket"
if TYPE_CHECKING:
    Plain = _standard.socket
else:  # also where a fast class stands in its place
    Plain = _standard.socket.__mro__[_standard.socket.__mro__.index(_socket.socket) - 1]


def is_tcp_stream(sock: Any) -> bool:
    """Whether a socket of the standard class is a stream of TCP, as far as it knows."""
    return (
        _family(sock) in (_socket.AF_INET, _socket.AF_INET6)
        and _kind(sock) & 0xF == _socket.SOCK_STREAM
        and _proto(sock) in (0, _socket.IPPROTO_TCP)
    )


def pass_for_standard(kind: type) -> None:
    """Makes the class look like the standard one, where a type checker does not look.

    Users import it from `fastsock.socket`: so it, and what is its own, says that it is from there.
    """
    own = kind.__module__
    kind.__module__ = _WHERE_USERS_FIND_IT
    kind.__annotations__ = {}
    for name, value in vars(kind).items():
        function = value.fget if isinstance(value, property) else value
        if isinstance(function, types.FunctionType) and function.__module__ == own:
            function.__module__ = _WHERE_USERS_FIND_IT
        if isinstance(value, types.FunctionType):
            function.__annotations__ = {}
            function.__doc__ = function.__doc__ or getattr(getattr(Plain, name, None), "__doc__", None)


def stand_in(names: dict[str, Any]) -> None:
    """Gives a module with a class `socket` everything else that the standard module has."""
    names["SocketType"] = names["socket"]
    own = {"socket", "SocketType"}
    names.update({n: v for n, v in vars(_standard).items() if n not in own and not n.startswith("__")})
    for name in ("create_connection", "create_server", "socketpair", "fromfd"):
        names[name] = _with_names(getattr(_standard, name), names)
    names["__all__"] = [*_standard.__all__]


def _with_names(function: Any, names: dict[str, Any]) -> Any:
    """A copy of the standard function that looks its names up there."""
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
    return copy
