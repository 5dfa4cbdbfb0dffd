"""A command's words: what argparse does not understand is told in one line."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from .process import Unusable


class Parser(argparse.ArgumentParser):
    """Ends with one line and status 2 where the words are wrong; functions say what they want by their ValueError."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, **more})

    def add_argument(self, *names: Any, **more: Any) -> argparse.Action:
        """As argparse does; a function's own words are told."""
        if callable(more.get("type")) and not isinstance(more["type"], type):
            more["type"] = _told(more["type"])
        return super().add_argument(*names, **more)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; --help tells what there is\n")


def _told(function: Callable[[str], Any]) -> Callable[[str], Any]:
    @functools.wraps(function)
    def read(text: str) -> Any:
        try:
            return function(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def writable(*files: str | None) -> None:
    """What is written at the end can be written; "-" is standard output. Raises Unusable."""
    for file in filter(None, files):
        if file == "-":
            continue
        path = Path(file)
        if path.is_dir():
            raise Unusable(f"{file} is a folder: name a file")
        if not path.absolute().parent.is_dir():
            raise Unusable(f"{file} cannot be written: make its folder first")
        if not all(os.access(each, os.W_OK) for each in (path, path.absolute().parent) if each.exists()):
            raise Unusable(f"{file} cannot be written: name another file")
