from contextvars import ContextVar
from typing import Any

current: ContextVar[Any]
WAITS: object

class Call:
    number: int
    done: bool
    failed: bool
    awaited: bool
    apart: bool
    deadline: float
    lasting: float
    method: Any
    value: Any
    wake: Any
    inbox: Any
    on_done: Any
    chain: Any
    def __init__(self, number: int, method: Any) -> None: ...
    def calls_when_done(self, function: Any) -> bool: ...

class Entry:
    flags: int
    functions: list[Any]
    count: int
    def __init__(self, flags: int, functions: list[Any], count: int) -> None: ...

class Request:
    connection: Any
    arguments: Any
    keywords: Any
    behind: Any
    task: Any
    chain: Any
    stop: Any
    outer: Any
    resume: Any
    waits: Any
    rows: Any
    exported: Any
    kind: int
    flags: int
    number: int
    behalf: int
    method: int
    deadline: float
    cancelled: bool
    def __init__(
        self,
        connection: Any,
        kind: int,
        flags: int,
        number: int,
        exported: Any,
        method: int,
        arguments: Any,
        keywords: Any,
        deadline: float,
        behalf: int,
    ) -> None: ...

class Rows:
    batch: Request
    found: list[Any]
    waiting: Any
    def __init__(self, batch: Request) -> None: ...
    def resume(self, _: Request) -> None: ...

class _Process:
    forks: int
    def __init__(self) -> None: ...

process: _Process
