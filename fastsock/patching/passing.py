"""Raw descriptor numbers that go to another process: exec, spawn, subprocess, SCM_RIGHTS.

The other process knows nothing of the shared memory behind a fast connection. So this process first
makes the number a kernel stream ("released"), while it can still carry the bytes.

subprocess, and multiprocessing's spawn and forkserver, all start their children by
``_posixsubprocess.fork_exec``. multiprocessing sends descriptors by ``sendmsg``. It keeps descriptors
for later by ``os.dup`` (see os_calls.py). So nothing of those packages is replaced.
"""

from __future__ import annotations

import _posixsubprocess
import os
import socket
from math import inf

from ..system.originals import originals
from .patches import in_place_of, is_replacement, wrapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .os_calls import DescriptorTable
    from .patches import Patches


def patch(patches: Patches, table: DescriptorTable) -> None:
    """Let the functions that start another program first release the fast connections that it inherits."""
    for module, name, maker in _MAKERS:
        original = getattr(module, name)
        if not is_replacement(original):
            patches.replace(module, name, in_place_of(original, module.__name__, maker(original, table)))
    for name in _SPAWNS:
        original = getattr(os, name)
        if not is_replacement(original):
            patches.replace(os, name, wrapping(original, _spawn(original, table)))
    original = _posixsubprocess.fork_exec
    if not is_replacement(original):
        fork_exec = in_place_of(original, "_posixsubprocess", _fork_exec(original, table))
        patches.replace(_posixsubprocess, "fork_exec", fork_exec)
        patches.replace_copy("subprocess", "_fork_exec", original, fork_exec)


def patch_sendmsg(patches: Patches, kind: type[socket.socket], table: DescriptorTable) -> None:
    """Let ``kind.sendmsg``, and so every class that inherits it, release the descriptors that it sends."""
    original = kind.sendmsg
    if not is_replacement(original):
        patches.replace(kind, "sendmsg", wrapping(original, _sendmsg(original, table)))


def release_inheritable(table: DescriptorTable, below: float = inf) -> None:
    """Release every fast connection with a number under ``below`` that a program started now would inherit."""
    for fd in table.descriptors():
        if fd >= below:
            continue
        try:
            inherited = originals.get_inheritable(fd)
        except OSError:  # closed by somebody else meanwhile: nobody inherits it
            continue
        if inherited:
            table.release(fd)


def release_rights(ancillary: Iterable[Any], table: DescriptorTable) -> list[Any]:
    """Release the descriptors in sendmsg's ancillary data; gives the data back as a list.

    Malformed data is left for sendmsg to refuse.
    """
    items = list(ancillary)
    for item in items:
        if isinstance(item, (tuple, list)) and len(item) == 3 and tuple(item[:2]) == _RIGHTS:
            for fd in _numbers(item[2]):
                table.release(fd)
    return items


_RIGHTS = (socket.SOL_SOCKET, socket.SCM_RIGHTS)


def _numbers(data: Any) -> list[int]:
    try:
        octets = memoryview(data).cast("B")
    except TypeError:
        return []
    return octets[: octets.nbytes // 4 * 4].cast("i").tolist()


def _sendmsg(original: Callable[..., int], table: DescriptorTable) -> Callable[..., int]:
    def sendmsg(self, buffers, *rest):  # type: ignore[no-untyped-def]
        if rest and rest[0]:
            rest = (release_rights(rest[0], table), *rest[1:])
        return original(self, buffers, *rest)

    return sendmsg


def _exec(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    def replace_image(owner, *args, **kwargs):  # type: ignore[no-untyped-def]
        release_inheritable(table)
        return original(*args, **kwargs)

    return replace_image


def _posix_spawn(original: Callable[..., int], table: DescriptorTable) -> Callable[..., int]:
    def posix_spawn(owner, path, argv, env, /, *, file_actions=(), **options):  # type: ignore[no-untyped-def]
        actions = list(file_actions or ())
        below = inf
        for action in actions:
            if isinstance(action, tuple) and action[:1] == (_DUP2,) and len(action) == 3:
                _release_number(table, action[1])
            elif isinstance(action, tuple) and action[:1] == (_CLOSE_FROM,) and len(action) == 2:
                below = action[1]
        release_inheritable(table, below)
        return original(path, argv, env, file_actions=actions, **options)

    return posix_spawn


_DUP2 = os.POSIX_SPAWN_DUP2
_CLOSE_FROM = getattr(os, "POSIX_SPAWN_CLOSEFROM", None)  # since Python 3.13, which starts most subprocesses so


def _system(original: Callable[..., int], table: DescriptorTable) -> Callable[..., int]:
    def system(owner, command):  # type: ignore[no-untyped-def]
        release_inheritable(table)
        return original(command)

    return system


def _spawn(original: Callable[..., int], table: DescriptorTable) -> Callable[..., int]:
    def spawn(*args, **kwargs):  # type: ignore[no-untyped-def]
        release_inheritable(table)  # before the fork: the child has no thread to carry the bytes
        return original(*args, **kwargs)

    return spawn


# Where fork_exec, the same from Python 3.10 to 3.15, takes the child's three standard descriptors.
_STANDARD = (6, 9, 11)


def _fork_exec(original: Callable[..., int], table: DescriptorTable) -> Callable[..., int]:
    def fork_exec(owner, *args):  # type: ignore[no-untyped-def]
        if len(args) > max(_STANDARD):
            close_fds, kept = args[2], args[3]
            for fd in (*(args[place] for place in _STANDARD), *(kept if isinstance(kept, tuple) else ())):
                _release_number(table, fd)
            release_inheritable(table, 3 if close_fds else inf)
        return original(*args)

    return fork_exec


def _release_number(table: DescriptorTable, fd: object) -> None:
    if isinstance(fd, int) and table.channel_of(fd) is not None:
        table.release(fd)


_MAKERS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (os, "execv", _exec),  # the other exec functions call these two
    (os, "execve", _exec),
    (os, "posix_spawn", _posix_spawn),
    (os, "posix_spawnp", _posix_spawn),
    (os, "system", _system),
)
_SPAWNS = ("spawnv", "spawnve", "spawnvp", "spawnvpe")  # the other four call these
