from typing import Any

LOST: tuple[type[BaseException], ...]

def serve(server: Any, connection: Any) -> None: ...
