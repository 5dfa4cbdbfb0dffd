"""What dir(), help(), inspect.signature() and completion show of a proxy: what its class says.

The class says it itself where the program gives it to connect(). Where it does not, the daemon tells it as plain
values: texts, and nothing that could be run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Any, NamedTuple

ANY = Signature(
    [Parameter("arguments", Parameter.VAR_POSITIONAL), Parameter("keywords", Parameter.VAR_KEYWORD)],
)
_KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)
_SELF = Parameter("self", Parameter.POSITIONAL_ONLY)
_SHORT = (bool, int, float, complex, str, bytes, type(None))  # values whose text tells no more than a signature does


class Member(NamedTuple):
    """What is said of one name. signature: as it is called by a proxy, without self."""

    name: str
    doc: str | None = None
    signature: Signature = ANY


class Text:
    """The text of a default, or of an annotation, of another process."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class Description:
    """What is said of a class, or of a function, and of its members.

    source: the class or function, or what `described` made of it in another process, or None.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._described: dict[str, Any] = {}
        self.doc: str | None = None
        if isinstance(source, tuple):
            self.doc, members = source
            self._described = {name: (doc, signature) for name, doc, signature in members}
        elif source is not None:
            self.doc = inspect.getdoc(source)

    def member(self, name: str) -> Member:
        """What is said of a name: nothing, and any arguments, where nothing is known."""
        if not isinstance(self._source, tuple):
            return _member(self._source, name)
        doc, signature = self._described.get(name, (None, None))
        return Member(name, doc, ANY if signature is None else _signature_of(signature))


def _member(source: Any, name: str) -> Member:
    if not isinstance(source, type):
        return Member(name, inspect.getdoc(source), _signature(source) or ANY) if callable(source) else Member(name)
    raw = inspect.getattr_static(source, name, None)
    if raw is None:
        return Member(name)
    doc = inspect.getdoc(raw if isinstance(raw, property) else getattr(source, name))
    if isinstance(raw, property):
        return Member(name, doc)
    signature = _signature(getattr(source, name))
    if signature is not None and not isinstance(raw, (staticmethod, classmethod)):
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return Member(name, doc, signature or ANY)


def _signature(function: Callable[..., Any]) -> Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # it is not written in Python
        return None


def with_self(signature: Signature) -> Signature:
    """The signature of the same method of the class."""
    return signature.replace(parameters=[_SELF, *signature.parameters.values()])


def described(source: Any, names: Iterable[str]) -> tuple[Any, ...]:
    """A class or a function as plain values, for another process."""
    description = Description(source)
    members = [description.member(name) for name in dict.fromkeys(names)]
    return description.doc, tuple((each.name, each.doc, _plain(each.signature)) for each in members)


def _plain(signature: Signature) -> tuple[Any, ...]:
    parameters = tuple(
        (each.name, int(each.kind), _plain_default(each.default), _plain_annotation(each.annotation))
        for each in signature.parameters.values()
    )
    return parameters, _plain_annotation(signature.return_annotation)


def _plain_default(default: Any) -> str | None:
    if default is Parameter.empty:
        return None
    return repr(default) if type(default) in _SHORT else "..."


def _plain_annotation(annotation: Any) -> str | None:
    if annotation is Signature.empty:
        return None
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def from_described(described: Any) -> tuple[Any, ...] | None:
    """What another process told, if it has the form that `described` gives it. None: it tells nothing."""
    try:
        doc, members = described
        hash(described)
        for name, of_member, signature in members:
            if type(name) is not str or type(of_member) not in (str, type(None)):
                return None
            _signature_of(signature)
    except (TypeError, ValueError, IndexError):
        return None
    return described if type(described) is tuple and type(doc) in (str, type(None)) else None


def _signature_of(plain: Any) -> Signature:
    """Raises TypeError, ValueError, IndexError where it is none."""
    parameters, returned = plain
    return Signature(
        [
            Parameter(
                name,
                _KINDS[kind],
                default=Parameter.empty if default is None else Text(default),
                annotation=Parameter.empty if annotation is None else Text(annotation),
            )
            for name, kind, default, annotation in parameters
        ],
        return_annotation=Signature.empty if returned is None else Text(returned),
    )
