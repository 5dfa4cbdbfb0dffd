from collections.abc import Callable
from typing import Any

def bind_class(
    fast: type,
    data_calls: dict[str, Any],
    note_number: Callable[..., None],
    forget_number: Callable[[int], None],
) -> None: ...
