"""Results as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from . import machine


def write(file: str, content: Mapping[str, Sequence[Any] | Mapping[str, Any]]) -> None:
    """Write dataclass objects and plain values, with the machine and the command; "-" is standard output."""
    document = {"machine": machine.description(), "command": sys.argv, **content}
    text = json.dumps(document, indent=1, default=dataclasses.asdict)
    if file == "-":
        print(text)
        return
    with open(file, "w") as out:
        out.write(text + "\n")
