"""Classes of the standard library that are no plain values, and no subclasses of one."""

from __future__ import annotations

import io
import types
from collections.abc import Callable
from typing import Any

from ...errors import BadFrame, RemoteError

Register = Callable[..., None]


def of_fastsock(register: Register) -> None:
    register(RemoteError, name="fastsock:RemoteError")


def of_builtins(register: Register) -> None:
    register(
        types.MappingProxyType, name="builtins:mappingproxy",
        pack=lambda value: dict(value), unpack=lambda state: types.MappingProxyType(_exactly(dict, state)),
    )  # fmt: skip


def of_io(register: Register) -> None:
    register(io.BytesIO, name="_io:BytesIO", pack=_pack_bytes_io, unpack=_unpack_bytes_io)
    register(io.StringIO, name="_io:StringIO", pack=_pack_string_io, unpack=_unpack_string_io)


def of_ipaddress(register: Register) -> None:
    import ipaddress

    for name in ("Address", "Network", "Interface"):
        for cls in (getattr(ipaddress, f"IPv4{name}"), getattr(ipaddress, f"IPv6{name}")):
            register(cls, name=f"ipaddress:{cls.__name__}", pack=str, unpack=_by_text(cls))


def of_decimal(register: Register) -> None:
    """What decimal raises holds classes of decimal: they go by their names."""
    import decimal

    known = {
        name: found
        for name, found in vars(decimal).items()
        if isinstance(found, type) and issubclass(found, decimal.DecimalException)
    }

    def pack(value: Any) -> Any:
        described = [[kind.__name__ for kind in each] if type(each) is list else each for each in value.args]
        return described, getattr(value, "__notes__", None)

    def unpack_as(cls: Any) -> Callable[[Any], Any]:
        def unpack(state: Any) -> Any:
            described, notes = state
            made = cls(*[[known[name] for name in each] if type(each) is list else each for each in described])
            if notes is not None:
                made.__notes__ = _exactly(list, notes)
            return made

        return unpack

    for name, cls in known.items():
        register(cls, name=f"decimal:{name}", pack=pack, unpack=unpack_as(cls))


def of_re(register: Register) -> None:
    import re

    def unpack(state: Any) -> Any:
        pattern, flags = state
        if type(pattern) is not bytes:
            _exactly(str, pattern)
        return re.compile(pattern, _exactly(int, flags) & ~re.DEBUG)

    register(re.Pattern, name="re:Pattern", pack=lambda value: (value.pattern, value.flags), unpack=unpack)


def of_urllib(register: Register) -> None:
    """The body of an answer stays behind: it is read from a socket."""
    from email.message import Message
    from urllib.error import HTTPError

    def pack(value: Any) -> Any:
        headers = None if value.headers is None else [(name, str(item)) for name, item in value.headers.items()]
        return value.url, value.code, value.msg, headers

    def unpack(state: Any) -> Any:
        url, code, text, headers = state
        message = Message()
        for name, item in headers or ():
            message[_exactly(str, name)] = _exactly(str, item)
        return HTTPError(url, code, text, message, None)

    register(HTTPError, name="urllib:HTTPError", pack=pack, unpack=unpack)


def _exactly(kind: type, state: Any) -> Any:
    if type(state) is not kind:
        raise BadFrame(f"{type(state).__qualname__} stands where a {kind.__qualname__} belongs")
    return state


def _pack_bytes_io(value: io.BytesIO) -> Any:
    return value.getvalue(), value.tell()


def _unpack_bytes_io(state: Any) -> io.BytesIO:
    data, at = state
    made = io.BytesIO(_exactly(bytes, data))
    made.seek(_exactly(int, at))
    return made


def _pack_string_io(value: Any) -> Any:
    return value.__getstate__()[:3]  # text, newline, position


def _unpack_string_io(state: Any) -> Any:
    text, newline, at = state
    made: Any = io.StringIO()
    made.__setstate__((_exactly(str, text), newline, _exactly(int, at), None))
    return made


def _by_text(cls: Any) -> Callable[[Any], Any]:
    return lambda state: cls(_exactly(str, state))
