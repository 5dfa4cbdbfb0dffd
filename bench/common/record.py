"""Results as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from . import machine


def write(file: str, content: Mapping[str, Sequence[Any] | Mapping[str, Any]]) -> None:
    """Write dataclass objects and plain values, with the machine and the command; "-" is standard output.

    The file is whole at every moment: who is interrupted here leaves the one before.
    """
    document = {"machine": machine.description(), "command": sys.argv, **content}
    text = json.dumps(document, indent=1, default=dataclasses.asdict)
    if file == "-":
        print(text)
        return
    with open(f"{file}.part", "w") as out:
        out.write(text + "\n")
    os.replace(f"{file}.part", file)
