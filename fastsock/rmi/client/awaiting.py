"""Waiting until a daemon serves a name: for programs that are started together with it."""

from __future__ import annotations

import _socket
import select
from typing import TYPE_CHECKING

from ... import config
from ...system.originals import originals
from ..errors import BadAddress, BadFrame, ConnectTimeout, Refused, RmiError, UnknownObject, VersionMismatch
from . import addresses
from .connecting import Options, dial, names_setting, seconds
from .reaching import Attempt

if TYPE_CHECKING:
    from ssl import SSLContext

_BRIEFLY, _TRY = 0.01, 2.0  # seconds of one attempt to reach a daemon: at least, also at the end, and at most
_SHORTEST, _LONGEST = 0.05, 1.0  # seconds between two attempts
_FOR_GOOD = (BadAddress, BadFrame, Refused, VersionMismatch)  # waiting mends none of these


def wait_for(name: str, timeout: float, *, key: str | bytes | None = None, ssl: SSLContext | None = None) -> None:
    """Waits until a daemon serves an object of this name. `connect` then finds it.

    name: of an object on this host, or any address that `connect` takes. timeout: seconds, at most. key, ssl: those of
    `connect`, for an address with a host. Raises ConnectTimeout, and Refused where the keys differ.
    """
    Waiting(name, timeout, Options(key, ssl=ssl)).run()


class Waiting:
    """One who waits. Another thread may stop it."""

    def __init__(self, name: str, timeout: float, options: Options) -> None:
        limit = seconds("timeout", timeout)
        if not limit:
            raise TypeError("timeout is None: say how many seconds to wait")
        self._address = name if isinstance(name, str) and name.startswith(("rmi:", "rmis:")) else f"rmi:{name}"
        self._wanted = addresses.parse(self._address)
        if not self._wanted.host:
            addresses.check_name(self._wanted.name)
        self._options = options
        self._attempt = Attempt(self._address, limit)
        self._stopped, self._stopper = _socket.socketpair()
        self._is_stopped = False
        self._last: RmiError | None = None

    def stop(self) -> None:
        """Ends run(), which then returns. Any thread may call it."""
        self._is_stopped = True
        self._stopper.close()

    def run(self) -> None:
        """Raises ConnectTimeout."""
        try:
            if self._wanted.host or self._wanted.name in dict(config.settings().exports):
                self._until_reached()
            else:
                self._until_named()
        except TimeoutError as error:
            if isinstance(error, ConnectTimeout):
                raise
            raise self._late() from self._last
        finally:
            self._stopped.close()
            self._stopper.close()

    def _until_named(self) -> None:
        """A name of this host: its process tells when it has it. A name server is asked from time to time."""
        server = bool(names_setting())
        pause = _SHORTEST if server else _LONGEST
        with addresses.Waiting(self._wanted.name) as waiting:
            while not self._is_stopped:
                try:
                    waiting.enter()
                    addresses.resolve(self._wanted.name, self._part(_LONGEST))
                    return
                except ConnectTimeout as error:  # it does not serve yet
                    self._last = error
                    self._attempt.left()
                    continue
                except UnknownObject as error:
                    self._last = error
                if server and self._reaches():
                    return
                waiting.wait(min(self._attempt.left(), pause), self._stopped.fileno())
                pause = min(2 * pause, _LONGEST)

    def _until_reached(self) -> None:
        pause = _SHORTEST
        poll = originals.poll()
        poll.register(self._stopped.fileno(), select.POLLIN)
        while not (self._is_stopped or self._reaches()):
            poll.poll(min(self._attempt.left(), pause) * 1000)
            pause = min(2 * pause, _LONGEST)

    def _reaches(self) -> bool:
        part = Attempt(self._address, self._part(_TRY))
        try:
            session, _, _ = dial(self._address, self._options, None, part)
        except _FOR_GOOD:
            raise
        except RmiError as error:
            self._last = error
            return False
        session.close()
        return True

    def _part(self, most: float) -> float:
        return max(min(self._attempt.until - originals.monotonic(), most), _BRIEFLY)

    def _late(self) -> ConnectTimeout:
        late = self._attempt.late("no daemon served it")
        if self._last is not None:
            late.args = (f"{late}; at last: {str(self._last).removeprefix(f'{self._address}: ')}",)
        return late
