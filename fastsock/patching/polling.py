"""Lets programs have pollers that know connections with memory: `select.epoll`, and what stands on it.

The pollers are native (`core/binding/_polling.pyx`). The standard selectors, and so asyncio, take them from here. What
a module took from `select` before is replaced there.
"""

from __future__ import annotations

import select
import selectors
import sys

from .. import core
from ..connection import carriers

if core.available:
    from ..core.binding import _polling as native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .patches import Patches

_NAMES = ("epoll", "poll", "select")
_IN, _OUT = select.POLLIN, select.POLLOUT
_SELECTORS = (
    ("EpollSelector", "_selector_cls", "epoll"),
    ("PollSelector", "_selector_cls", "poll"),
    ("SelectSelector", "_select", "select"),
)


def patch(patches: Patches) -> None:
    """Puts the pollers where programs look for them. Does nothing without the native core, or where the doors of the
    preloaded library are: these know what each poller of the process watches."""
    if not core.available or carriers.has_doors():
        return
    replaced: dict[int, tuple[Any, Any]] = {}
    for name in _NAMES:
        standard = getattr(select, name, None)
        if standard is not None:
            replaced[id(standard)] = standard, getattr(native, name)
    for kind, attribute, name in _SELECTORS:
        selector = getattr(selectors, kind, None)
        if selector is not None and attribute in vars(selector):
            patches.replace(selector, attribute, getattr(native, name))
    for module in list(sys.modules.values()):
        if module is not native:
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if id(value) in replaced and replaced[id(value)][0] is value:
                    patches.replace(module, name, replaced[id(value)][1])


def patch_one(selector: selectors.BaseSelector) -> None:
    """The same for one selector of the standard library, for as long as it lives. Idempotent."""
    if not core.available or carriers.has_doors() or type(selector).__module__ != "selectors":
        return
    masks = {key.fd: _mask(key.events) for key in selector.get_map().values()}
    own: Any = selector
    if isinstance(selector, selectors.SelectSelector):
        own._select = native.select
    elif hasattr(own, "_selector"):
        own._selector = native.adopted(own._selector, masks)


def _mask(events: int) -> int:
    return (_IN if events & selectors.EVENT_READ else 0) | (_OUT if events & selectors.EVENT_WRITE else 0)
