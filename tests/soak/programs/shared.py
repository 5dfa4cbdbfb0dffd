"""What the campaign and its clients tell each other: words in a file that all have mapped."""

from __future__ import annotations

import mmap
import struct

CONNECTIONS = 4  # of a client at most
CLIENTS = 8
DEATHS = 64  # the last processes that were killed
_STOP, _EVENTS, _RELOADS, _KILLED, _ANSWERS = 0, 1, 2, 8, 8 + DEATHS
SIZE = 8 * (_ANSWERS + CLIENTS * CONNECTIONS)


class Shared:
    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._words = mmap.mmap(file.fileno(), SIZE)

    def _get(self, word: int) -> int:
        return int(struct.unpack_from("q", self._words, 8 * word)[0])

    def _set(self, word: int, value: int) -> None:
        struct.pack_into("q", self._words, 8 * word, value)

    @property
    def stopped(self) -> bool:
        return bool(self._get(_STOP))

    def stop(self) -> None:
        self._set(_STOP, 1)

    @property
    def events(self) -> int:
        """How often something was done that may end connections."""
        return self._get(_EVENTS)

    @property
    def reloads(self) -> int:
        return self._get(_RELOADS)

    @property
    def busy(self) -> bool:
        """Something of that kind is being done now."""
        return self.events % 2 == 1

    def begin(self, *deaths: int, reload: bool = False) -> None:
        """Before something is done that may end connections."""
        for pid in deaths:
            self._set(_KILLED + self.events // 2 % DEATHS, pid)
        self._set(_RELOADS, self.reloads + reload)
        self._set(_EVENTS, self.events + 1)

    def done(self) -> None:
        """What begins now has to do with what was done no more."""
        self._set(_EVENTS, self.events + 1)

    def was_killed(self, pid: int) -> bool:
        return any(self._get(_KILLED + at) == pid for at in range(DEATHS))

    def answered(self, client: int, connection: int, count: int = 1) -> None:
        word = _ANSWERS + client * CONNECTIONS + connection
        self._set(word, self._get(word) + count)

    def answers(self) -> list[int]:
        return [self._get(_ANSWERS + at) for at in range(CLIENTS * CONNECTIONS)]
