from typing import Any

from ._transfer import Places

class Seen:
    places: Places
    unit: int
    converts: bool

    def __init__(self, places: Places, unit: int, converts: bool) -> None: ...

class Pointer:
    def __init__(self, memory: Any, number: int) -> None: ...
    def take(self, count: int) -> int: ...
    def read(self) -> int: ...
    def set(self, place: int) -> None: ...

class Direct:
    engine: Any
    pointer: Pointer | None
    descriptor: int
    how: int
    atomic: bool
    view: Any
    position: int

    def __init__(
        self, engine: Any, descriptor: int, how: int, amode: int, pointer: Any, refused: tuple[int, int], view: Seen
    ) -> None: ...
    def refuses(self, writing: bool) -> bool: ...
    def take(self, count: int) -> int: ...
    def move(self, before: int, after: int) -> bool: ...

# It says what is general by super(): its calls have the signatures of the class after it.
class NativeFileCalls: ...
