from collections.abc import Iterable
from typing import Any, final

@final
class Path:
    def __init__(self, record: Any) -> None: ...

@final
class Started: ...

@final
class Repeated:
    def start(self) -> None: ...

@final
class Matched:
    communicator: Any
    matched: Any

    def __init__(self, communicator: Any, matched: Any) -> None: ...

def start_all(requests: Iterable[Any]) -> None: ...

# Both say what is general by super(): their calls have the signatures of the classes after them.
class NativePointToPoint: ...
class NativeRequest: ...
class NativeMessage: ...
