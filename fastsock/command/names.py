"""`fastsock names`: a name server, by which daemons of other hosts are found."""

from __future__ import annotations

from .words import parser, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence


def usage() -> str:
    return _parser().format_help()


def _parser() -> ArgumentParser:
    try:
        from ..rmi import names
    except ImportError as error:  # without the native core
        refuse(f"{error}\n", "fastsock names")
    made = parser(
        "names",
        "Serves names of remote objects until Ctrl-C ends it. Daemons and callers of other hosts find it by "
        "FASTSOCK_RMI_NAMES.",
        "Exit status 2: it cannot listen there.",
    )
    names.add_options(made)
    return made


def main(words: Sequence[str]) -> int:
    made = _parser()
    from ..rmi import names

    return names.serve(made.parse_args(words).listen, made.prog)
