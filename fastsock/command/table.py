"""The subcommands: their names, in the order in which the help shows them, and what each does."""

from __future__ import annotations


class Command:
    """module: its file here. takes_program: its words are another program's command line. everywhere: it has a use
    where the system is not Linux, too."""

    def __init__(self, module: str, does: str, takes_program: bool = False, everywhere: bool = False) -> None:
        self.module = module
        self.does = does
        self.takes_program = takes_program
        self.everywhere = everywhere


COMMANDS = {
    "run": Command("run", "run a program of any language with fast sockets", True, everywhere=True),
    "ranks": Command("ranks", "run a program as the ranks of one job", True),
    "doctor": Command("doctor", "say which paths work here, or what a program would get", True, everywhere=True),
    "top": Command("top", "show what moves, in all processes of this user that run fastsock"),
    "list": Command("listing", "list the daemons, ranks and processes of this user"),
    "names": Command("names", "serve names of remote objects to other hosts"),
    "bench": Command("bench", "measure what two programs on this machine gain"),
    "completion": Command("completion", "print the completion of a shell"),
}


def usage() -> str:
    """The help of `fastsock` itself."""
    rows = [f"  {name:<12}{command.does}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: fastsock COMMAND [options] [arguments]",
            "",
            *rows,
            "",
            "  --help, --version",
            "",
            "`fastsock COMMAND --help` says more. Exit status 2: the command line or a setting cannot be used.",
            "",
        ]
    )
