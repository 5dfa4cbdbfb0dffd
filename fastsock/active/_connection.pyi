from collections.abc import Buffer
from typing import Any

MEDIUM: int
MOST_WORDS: int
MOST_CREDITS: int
NOT_EMPTY: int
CAN_SEND: int

class Token:
    data: Any
    @property
    def endpoint(self) -> Any: ...
    @property
    def peer(self) -> str: ...
    def reply(self, handler: int, *words: int, data: Buffer | None = None) -> None: ...
    def reply_bulk(self, handler: int, data: Buffer, *words: int, offset: int | None = None) -> None: ...

class Transfer:
    @property
    def sent(self) -> bool: ...
    @property
    def failure(self) -> Exception | None: ...
    def wait(self, timeout: float | None = None) -> None: ...

class Connection:
    endpoint: Any
    peer: str
    path: str
    index: int
    @property
    def lost(self) -> Exception | None: ...
    @property
    def credits(self) -> tuple[int, int]: ...
    @property
    def under_way(self) -> int: ...
    def __init__(
        self, sock: Any, endpoint: Any, asks: bool, shorts: int, longs: int, most_here: int, most_there: int, peer: str
    ) -> None: ...
    def bury(self) -> list[Any]: ...

def returned(connection: Connection, known: Any, reason: int) -> Any: ...

class Requests:
    entries: list[Connection | None]
    handlers: list[Any]
    bundle: Any
    arrivals: Any
    def request(self, index: int, handler: int, *words: int, data: Buffer | None = None) -> None: ...
    def request_bulk(self, index: int, handler: int, data: Buffer, *words: int, offset: int | None = None) -> None: ...
    def begin_bulk(
        self, index: int, handler: int, data: Buffer, *words: int, offset: int | None = None
    ) -> Transfer: ...
    def get(
        self, index: int, handler: int, offset: int, nbytes: int, *words: int, into: Buffer | None = None
    ) -> None: ...

class Progress:
    connections: list[Connection]
    lost: list[Connection]
    returned: list[Any]
    bell: int
    def poll(self, timeout: float | None = 0.0) -> int: ...
    def wait(self, timeout: float | None = None, events: int = ...) -> int: ...
