from collections.abc import Callable
from typing import Any, final

from .communicator import Communicator

@final
class Path:
    def __init__(self, record: Communicator) -> None: ...

def load_plain(data: Any) -> tuple[Any, bool]: ...
def dump_plain(obj: Any) -> bytes: ...

CALLS: tuple[Callable[..., Any], ...]

@final
class Started: ...

REQUEST_CALLS: dict[str, Any]
