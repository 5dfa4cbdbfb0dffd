"""Puts the fast class where every program looks for sockets, and takes it away again."""

from __future__ import annotations

import sys

from ..patching.patches import Patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

# create_connection, create_server, socketpair and fromfd look the class up in their module when they are called.
NAMES = ("socket",)
# bytes that asyncio asks for in each receive, whatever comes: for that the C library maps memory, and gives it back
EVENT_LOOP_BLOCK = 256 << 10


class LateInstallWarning(RuntimeWarning):
    """A module took the plain socket class before fastsock was installed. Its sockets stay plain."""

    __module__ = "fastsock"  # where users name it


class _Installation:
    """The changes of one installation."""

    __slots__ = ("children", "fast", "patches", "plain")

    def __init__(self, plain: type, fast: type) -> None:
        self.plain = plain
        self.fast = fast
        self.patches = Patches()
        self.children = False

    def undo(self) -> list[str]:
        if "fastsock.reporting.report" in sys.modules:
            from ..reporting import report

            report.withdraw()
        if "fastsock.reporting.tracing" in sys.modules:
            from ..reporting import tracing

            tracing.withdraw()
        if self.children:
            import os

            from . import children

            children.uncover(os.environ)
        _give_back_pickling(self.plain, self.fast)
        left = self.patches.undo()
        if "fastsock.patching.guards" in sys.modules:
            from ..patching import guards

            left += guards.withdraw()
        return left


_current: _Installation | None = None


def installed() -> bool:
    """Whether the standard library's ``socket`` module has the fast class now."""
    return _current is not None


def install(*, children: bool = True, stacklevel: int = 1) -> None:
    """Make the standard library's ``socket`` module give fast sockets, in this process and its child Pythons.

    Replaces the class `socket` there, and the functions of ``os`` that take descriptor numbers. The functions
    create_connection, create_server, socketpair and fromfd then use the fast class. ``children=False`` leaves
    the environment alone, and so all child Pythons except forks. Does nothing if it is installed already.

    Warns (LateInstallWarning, and the logger "fastsock") with the names of the modules that took the plain
    class before. To avoid it, install first, or start the program by ``python -m fastsock.launcher``. Raises
    ConfigError if a setting cannot be used. Whatever the call raises, nothing has changed.
    """
    global _current
    import socket as stdlib  # which may install it (_bootstrap)

    if _current is not None:
        return
    from .. import core
    from ..socket import chosen

    fast: ModuleType = chosen()
    _warn_of_holders(stdlib, fast.socket, stacklevel + 1)
    installation = _Installation(stdlib.socket, fast.socket)
    try:
        _apply(installation, stdlib, fast, children)
    except BaseException:
        installation.undo()
        raise
    if core.available:
        core.expect_blocks(EVENT_LOOP_BLOCK)
    _current = installation


def uninstall() -> None:
    """Put back everything that ``install`` replaced. Connections that exist stay as they are. Idempotent."""
    global _current
    if _current is None:
        return
    installation, _current = _current, None
    left = installation.undo()
    if left:
        import logging

        names = ", ".join(left)
        logging.getLogger("fastsock").warning("not put back, because other code has replaced them since: %s", names)


def _apply(installation: _Installation, stdlib: ModuleType, fast: ModuleType, children: bool) -> None:
    from .. import core
    from ..config import settings

    if core.available:  # without it no number is more than a number
        from ..patching import guards, polling

        guards.activate_for(installation.plain, installation.fast)
        polling.patch(installation.patches)
    for name in NAMES:
        installation.patches.replace(stdlib, name, getattr(fast, name))
    # repr, warnings, pickles and pydoc name the class by where programs find it
    installation.patches.rename(installation.fast, installation.plain)
    if children:
        import os

        from . import children as environment

        installation.children = True
        environment.cover(os.environ)
    if settings().stats is not None:
        from ..reporting import report

        report.arrange()
    if settings().trace:
        from ..reporting import tracing  # imports logging, which is slow, only where it is needed

        tracing.arrange()


def _give_back_pickling(plain: type, fast: type) -> None:
    """Imported meanwhile, multiprocessing has registered the fast class as the one whose sockets it can send."""
    reduction = sys.modules.get("multiprocessing.reduction")
    if reduction is not None:
        reducers = reduction.ForkingPickler._extra_reducers
        if fast in reducers:
            reducers.setdefault(plain, reducers.pop(fast))


def _warn_of_holders(stdlib: ModuleType, fast: type, stacklevel: int) -> None:
    holders = _holders(stdlib.socket, fast)
    if not holders:
        return
    import logging
    import warnings

    message = (
        f"the plain socket class was taken before fastsock was installed, by: {', '.join(holders)}. "
        "What they make stays plain TCP; call fastsock.install() before they are imported, "
        "or start the program with python -m fastsock.launcher"
    )
    logger = logging.getLogger("fastsock")
    if logger.hasHandlers():  # without any, logging would print what the warning prints
        logger.warning("%s", message)
    warnings.warn(message, LateInstallWarning, stacklevel=stacklevel + 1)


def _holders(plain: type, fast: type) -> list[str]:
    """The places of the plain class outside its own module: "module.name", or "class module.name" for a subclass."""
    found: dict[str, None] = {}
    for module_name, module in list(sys.modules.items()):
        if not _is_ours(module_name) and module_name != "socket":
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if value is plain:
                    found[f"{module_name}.{name}"] = None
    for subclass in _subclasses(plain, fast):
        if not _is_ours(subclass.__module__):
            found[f"class {subclass.__module__}.{subclass.__qualname__}"] = None
    return sorted(found)


def _is_ours(module_name: str) -> bool:
    return module_name.partition(".")[0] == "fastsock"


def _subclasses(plain: type, fast: type) -> list[type]:
    found: list[type] = []
    pending: list[type] = [plain]
    while pending:
        kinds: list[type] = pending.pop().__subclasses__()
        deeper = [kind for kind in kinds if kind is not fast]
        found += deeper
        pending += deeper
    return found
