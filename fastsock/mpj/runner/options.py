"""A command line, understood: the programs to run, the number of ranks, and their hosts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .supervisor import Supervisor


class Part:
    """The ranks of one program in a job of several. `environ`, `directory`: those of these ranks alone."""

    def __init__(self) -> None:
        self.size = 0  # not told: one, or as many as there are places on the hosts
        self.program: list[str] = []
        self.environ: dict[str, str] = {}
        self.directory: str | None = None
        self.literal = False  # the program's first word is what to execute, whatever it looks like


class Options(Part):
    """The command line, understood."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Part] = []  # programs after the first
        self.hosts: list[tuple[str, int]] | None = None  # as of a host file
        self.hostfile: str | None = None
        self.python: str | None = None
        self.device: str | None = None
        self.timeout: float | None = None
        self.grace = 2.0
        self.tag = False
        self.keep_going = False  # without ranks that fail
        self.as_mpi4py = False
        self.on_supervisor: Callable[[Supervisor], None] | None = None  # called before the ranks start
        self.name = "python -m fastsock.mpj.run"  # by which errors speak of this program
