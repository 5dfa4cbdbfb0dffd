"""`fastsock ranks`: a program as the ranks of one job, as `python -m fastsock.mpj.run` starts them."""

from __future__ import annotations

from ..mpj import run
from .words import print_help_or_version, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_NAME = "fastsock ranks"


def usage() -> str:
    return run.usage(_NAME)


def main(words: Sequence[str]) -> NoReturn:
    """Runs the ranks, and exits as the first that failed."""
    try:
        options = run.parse(words)
    except run.UsageError as error:
        refuse(f"{error}\n\n{usage()}", _NAME)
    if options.program in (["--help"], ["--version"]):
        print_help_or_version(options.program[0], usage())
    options.name = _NAME
    run.run(options)
