"""The preloaded library (core/preload): where it is, and how a program gets it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from ..config import Rule, Settings

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY = os.path.join(_PACKAGE, "core", "preload", "libfastsock_preload.so")
PRELOAD = "LD_PRELOAD"
RULES = "FASTSOCK_RESOLVED_RULES"

_MOST_RULES = 100_000  # characters: the kernel takes no variable of 128 KiB


ELSEWHERE = f"the faster paths need Linux, and this is {sys.platform}"


class CannotPreload(Exception):
    """The library cannot be preloaded. The text says why, and what to do."""


def cover(environ: MutableMapping[str, str]) -> None:
    """Change an environment so that programs started with it get the library. Other preloads stay. Idempotent."""
    if sys.platform != "linux":
        raise CannotPreload(ELSEWHERE)
    if not os.path.exists(LIBRARY):
        raise CannotPreload(f"{LIBRARY} is missing: install fastsock where there is a C compiler")
    if any(separator in LIBRARY for separator in " :"):
        raise CannotPreload(f"{LIBRARY} has a space or a colon in its path, which {PRELOAD} cannot name")
    others = [entry for entry in environ.get(PRELOAD, "").replace(":", " ").split() if entry != LIBRARY]
    environ[PRELOAD] = " ".join([LIBRARY, *others])


def cover_where_possible(settings: Settings, environ: MutableMapping[str, str]) -> None:
    """Both, where the library is there. Without it C code in a Python process has plain TCP."""
    try:
        cover(environ)
        hand_on_rules(settings, environ)
    except CannotPreload:
        uncover(environ)


def uncover(environ: MutableMapping[str, str]) -> None:
    """Take the library out. Other preloads stay. Idempotent."""
    others = [entry for entry in environ.get(PRELOAD, "").replace(":", " ").split() if entry != LIBRARY]
    environ.pop(RULES, None)
    if others:
        environ[PRELOAD] = " ".join(others)
    else:
        environ.pop(PRELOAD, None)


def hand_on_rules(settings: Settings, environ: MutableMapping[str, str]) -> None:
    """Give the library the rules of FASTSOCK_CONFIG, resolved: it looks up no name. core/preload/rules.c has the form.

    They are named after their file: where a program gives its children another FASTSOCK_CONFIG, these stay on TCP.
    """
    environ.pop(RULES, None)
    file = environ.get("FASTSOCK_CONFIG", "")
    if not file:
        return
    entries = [entry for rule in settings.rules for entry in _resolved(rule)]
    text = " ".join(["1", str(len(entries)), *entries, file])
    if len(os.fsencode(text)) > _MOST_RULES:
        raise CannotPreload(f"{file} has more rules than programs can be given: write fewer, of networks as 10.0.0.0/8")
    environ[RULES] = text


def _resolved(rule: Rule) -> Iterator[str]:
    """One entry for each network."""
    networks = ["*"]
    if rule.networks is not None:
        networks = [f"{number:0{bits // 4}x}/{mask.bit_count()}" for bits, number, mask in rule.networks]
    paths = ",".join(rule.transports)
    for network in networks:
        ports = f"{rule.first_port}-{rule.last_port}"
        yield f"{rule.direction} {network} {ports} {int('shm' in rule.transports)} {rule.line or 0} {rule.host} {paths}"
