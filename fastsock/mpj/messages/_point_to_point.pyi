from collections.abc import Callable
from typing import Any, final

from ..communicators.communicator_record import Communicator

@final
class Path:
    def __init__(self, record: Communicator) -> None: ...

CALLS: tuple[Callable[..., Any], ...]

@final
class Started: ...

REQUEST_CALLS: dict[str, Any]
