"""Run programs as ranks, with the options of other MPIs' mpiexec: ``fastsock-mpiexec -n 4 python app.py``.

It is for programs and tests that start a command of that name. By hand, `python -m fastsock.mpj.run` is shorter to say,
and does more.
"""

from __future__ import annotations

import os
import sys

from .run import UsageError, run
from .runner.options import Options, Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

USAGE = """\
usage: mpiexec [options] program [arguments] [: [options] program [arguments]]...

Starts ranks. They find each other by `from mpi4py import MPI` or `from fastsock.mpj import MPI`: in them both mean
fastsock.mpj. Options have one dash or two.

  -n, -np N                     how many ranks (default 1, or as many as the hosts have places)
  -host, -hosts HOST[:N],...    start them on these hosts, by ssh
  -hostfile, -machinefile, -f FILE
                                the same from a file: lines of host, host:4 or host slots=4
  -ppn, -perhost, -npernode N   so many on each host
  -x NAME[=VALUE], -env NAME VALUE, -genv NAME VALUE
                                a variable of the ranks; -env and -x: of those of this program
  -wdir, -wd DIRECTORY          where they run
  -timeout SECONDS              end all ranks after that time; the exit status is 124 then
  -l, -prepend-rank, -tag-output
                                begin each line that a rank prints with its number
  -keep-going, -disable-auto-cleanup, -enable-recovery, -with-ft ulfm
                                the others go on when a rank fails
  -no-as-mpi4py                 mpi4py is mpi4py
  -help, -version

Options that place ranks on cores, allow too many of them or allow root change nothing: --bind-to, --map-by, --rank-by,
--oversubscribe, --use-hwthread-cpus, --allow-run-as-root, --mca NAME VALUE, -launcher, -iface, -genvall and the like.
"""

# Options of MPICH's and Open MPI's that change nothing here, and how many words each has after it.
_IGNORED = {
    **dict.fromkeys(("oversubscribe", "nooversubscribe", "allow-run-as-root", "use-hwthread-cpus", "nolocal"), 0),
    **dict.fromkeys(("genvall", "envall", "verbose", "v", "q", "quiet", "report-bindings"), 0),
    **dict.fromkeys(("bind-to", "map-by", "rank-by", "cpu-set", "cpus-per-proc", "display"), 1),
    **dict.fromkeys(("launcher", "bootstrap", "launcher-exec", "iface", "genvlist", "envlist", "s", "stdin", "rmk"), 1),
    **dict.fromkeys(("mca", "gmca", "prtemca", "pmixmca", "omca"), 2),
}
_COUNTS = ("n", "np", "c")
_HOSTS = ("host", "hosts", "H")
_FILES = ("hostfile", "machinefile", "f", "default-hostfile")
_EACH = ("ppn", "perhost", "npernode", "N")
_FOLDERS = ("wdir", "wd", "dir")
_TAGS = ("l", "prepend-rank", "tag-output")
_KEEPS_GOING = ("keep-going", "disable-auto-cleanup", "enable-recovery")


class _Reader:
    def __init__(self, words: Sequence[str]) -> None:
        self.rest = list(words)
        self.options = Options()
        self.options.as_mpi4py = True
        self.options.name = "mpiexec (fastsock)"
        self.parts: list[Part] = [self.options]
        self.everywhere: dict[str, str] = {}
        self.each = 0

    def read(self) -> Options:
        while True:
            self.part(self.parts[-1])
            if not self.rest:
                break
            del self.rest[0]  # the colon
            self.parts.append(Part())
        for part in self.parts:
            part.environ = self.everywhere | part.environ
        options = self.options
        options.others = self.parts[1:]
        if self.each and options.hosts is not None:
            options.hosts = [(host, self.each) for host, _ in options.hosts]
        elif self.each and not options.size and options.hostfile is None:
            options.size = self.each
        return options

    def part(self, part: Part) -> None:
        """Reads the words up to a colon."""
        while self.rest and self.rest[0].startswith("-"):
            if self.rest[0] == "--":
                del self.rest[0]
                break
            self.option(self.rest.pop(0), part)
            if self.options.program in (["--help"], ["--version"]):
                self.rest.clear()
                return
        end = self.rest.index(":") if ":" in self.rest else len(self.rest)
        part.program = self.rest[:end]
        del self.rest[:end]
        if not part.program:
            raise UsageError("there is no program to run")
        first = part.program[0]
        # as with every mpiexec, the words themselves; but a .py file that cannot be executed is a program for Python
        part.literal = not first.endswith(".py") or (os.access(first, os.X_OK) and os.path.isfile(first))

    def option(self, word: str, part: Part) -> None:
        name, equals, given = word.lstrip("-").partition("=")

        def value(kind: Callable[[str], object] = str) -> str:
            found = given if equals else self.rest.pop(0) if self.rest else None
            if found is None:
                raise UsageError(f"unrecognized argument {name}: it needs a value")
            try:
                kind(found)
            except ValueError:
                raise UsageError(f"{word} {found}: not a number") from None
            return found

        options = self.options
        if name in _COUNTS:
            part.size = int(value(int))
            if part.size <= 0:
                raise UsageError(f"{word} {part.size}: must be more than 0")
        elif name in _HOSTS:
            from .runner import hosts

            try:
                options.hosts = hosts.parse(value())
            except ValueError as error:
                raise UsageError(f"{word}: {error}") from None
        elif name in _FILES:
            options.hostfile = value()
        elif name in _EACH:
            self.each = int(value(int))
            if self.each <= 0:
                raise UsageError(f"{word} {self.each}: must be more than 0")
        elif name == "x":
            key, equals, text = value().partition("=")
            part.environ.update({key: text} if equals else {key: os.environ[key]} if key in os.environ else {})
        elif name in ("env", "genv"):
            key = value()
            (part.environ if name == "env" else self.everywhere)[key] = value()
        elif name in _FOLDERS:
            part.directory = os.path.abspath(value())
        elif name == "timeout":
            options.timeout = float(value(float))
            if not options.timeout > 0:
                raise UsageError(f"{word} {options.timeout:g}: must be more than 0")
        elif name in _TAGS:
            options.tag = True
        elif name in _KEEPS_GOING:
            options.keep_going = True
        elif name == "with-ft":
            options.keep_going = value() in ("ulfm", "mpi", "yes", "true", "1")
        elif name == "no-as-mpi4py":
            options.as_mpi4py = False
        elif name in ("help", "h"):
            options.program = ["--help"]
        elif name in ("version", "V"):
            options.program = ["--version"]
        elif name in _IGNORED:
            for _ in range(_IGNORED[name] - bool(equals)):
                value()
        else:
            raise UsageError(f"unrecognized argument {name}")


def parse(arguments: Sequence[str]) -> Options:
    """Return the options of a command line. Raises UsageError.

    `program` is ["--help"] or ["--version"] where that is asked for.
    """
    return _Reader(arguments).read()


def version() -> str:
    """The text of `--version`. Programs look in it for the name of the MPI whose options they may use."""
    import fastsock

    return f"mpiexec (fastsock) {fastsock.__version__}\nHYDRA: takes the options of MPICH's, and most of Open MPI's\n"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line ``arguments`` (default: ``sys.argv[1:]``), and exit as `fastsock.mpj.run` does."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
    except UsageError as error:
        sys.stderr.write(f"mpiexec (fastsock): {error}\n\n{USAGE}")
        sys.exit(2)
    if options.program in (["--help"], ["--version"]):
        print(USAGE if options.program == ["--help"] else version(), end="")
        sys.exit(0)
    run(options)


if __name__ == "__main__":
    main()
