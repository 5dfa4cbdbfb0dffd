from typing import Any

from ._locks import Lock

FOR_EVER: float
NOT_AT_ALL: float

class Receiver:
    sock: Any
    session: Any
    peer: str
    lost: Any
    receiving: Lock
    limit: int
    activity: int
    bytes_received: int
    def __init__(self, sock: Any, carrier: Any, session: Any, unpacker: Any, peer: str, limit: int) -> None: ...
    def frame_bytes(self) -> int: ...
    def has_more(self) -> bool: ...
