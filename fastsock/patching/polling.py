"""Lets programs have pollers that know connections with memory: `select.epoll`, and what stands on it.

The pollers are native (`_polling` and `_polls` of `core/binding`). The standard selectors, and so asyncio, take them
from here. What a module took from `select` before is replaced there.
"""

from __future__ import annotations

import select
import selectors
import sys

from .. import core
from ..connection import carriers

if core.available:
    from ..core.binding import _polling, _polls

    native = {"epoll": _polling.epoll, "poll": _polls.poll, "select": _polls.select}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .patches import Patches

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
    for name, ours in native.items():
        standard = getattr(select, name, None)
        if standard is not None:
            replaced[id(standard)] = standard, ours
    for kind, attribute, name in _SELECTORS:
        selector = getattr(selectors, kind, None)
        if selector is not None and attribute in vars(selector):
            patches.replace(selector, attribute, native[name])
    for module in list(sys.modules.values()):
        if module not in (_polling, _polls):
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
        own._select = _polls.select
    elif hasattr(own, "_selector"):
        own._selector = _polls.adopted(own._selector, masks)


def _mask(events: int) -> int:
    return (_IN if events & selectors.EVENT_READ else 0) | (_OUT if events & selectors.EVENT_WRITE else 0)
