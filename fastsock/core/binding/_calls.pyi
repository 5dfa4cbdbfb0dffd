"""Types of the data calls of sockets whose connections stay TCP and gain memory; the docstrings are in `_calls.pyx`."""

from typing import Any

class SocketCalls:
    def fileno(self) -> int: ...

def also_serve(calls: Any) -> None: ...
