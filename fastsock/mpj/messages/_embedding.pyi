from collections.abc import Sequence
from struct import Struct
from typing import Any

ALIGNMENT: int
MAGIC: bytes
ENTRY: Struct
TAIL: Struct

def embedded(data: bytes, buffers: Sequence[Any]) -> list[Any]: ...
