"""Shows whether ranks run, and how fast their messages are: ``python -m mpi4py.bench helloworld``."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Command = Callable[[Any, argparse.ArgumentParser, Sequence[str]], int]


def helloworld(comm: Any, parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Each rank says hello, one after another."""
    from .environment import Get_processor_name
    from .util.sync import Sequential

    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    quiet = parser.parse_args(arguments).quiet
    with Sequential(comm):
        if not quiet:
            print(f"Hello, World! I am process {comm.rank} of {comm.size} on {Get_processor_name()}.", flush=True)
    return 0


def ringtest(comm: Any, parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """A message goes round all ranks, and each checks it. Rank 0 tells how long it took."""
    import numpy as np

    from .environment import Wtime

    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    parser.add_argument("-n", "--size", type=int, default=1, help="bytes of the message")
    parser.add_argument("-s", "--skip", type=int, default=0, help="rounds before the clock starts")
    parser.add_argument("-l", "--loop", type=int, default=1, help="rounds")
    options = parser.parse_args(arguments)
    given, got = np.full(options.size, 42, "u1"), np.zeros(options.size, "u1")
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size

    def rounds(many: int) -> None:
        for _ in range(many):
            got[:] = 0
            if comm.size == 1:
                comm.Sendrecv(given, 0, 0, got, 0, 0)
            elif comm.rank == 0:
                comm.Send(given, after)
                comm.Recv(got, before)
            else:
                comm.Recv(got, before)
                comm.Send(got, after)
            if not np.array_equal(given, got):
                raise ValueError(f"rank {comm.rank}: the message that came round is another one")

    rounds(options.skip)
    comm.Barrier()
    start = Wtime()
    rounds(options.loop)
    seconds = Wtime() - start
    if comm.rank == 0 and not options.quiet:
        print(
            f"time for {options.loop} loops = {seconds:g} seconds ({comm.size} processes, {options.size} bytes)",
            flush=True,
        )
    return 0


def pingpong(comm: Any, parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Ranks 0 and 1 send messages of growing sizes to and fro; rank 0 prints the time and the rate of each size."""
    import numpy as np

    from .environment import Wtime

    parser.add_argument("-m", "--min-size", type=int, default=0, help="bytes of the smallest (default: %(default)s)")
    parser.add_argument("-n", "--max-size", type=int, default=1 << 20, help="of the largest (default: %(default)s)")
    parser.add_argument("-l", "--loop", type=int, default=0, help="round trips of each size (default: by the size)")
    parser.add_argument("-s", "--skip", type=int, default=10, help="round trips before the clock starts")
    parser.add_argument("-o", "--objects", action="store_true", help="messages are pickled objects, not memory")
    options = parser.parse_args(arguments)
    if comm.size < 2:
        sys.stderr.write("pingpong: needs two ranks\n")
        return 1
    sizes = [options.min_size] if options.min_size == 0 else []
    size = max(options.min_size, 1)
    while size <= options.max_size:
        sizes.append(size)
        size *= 2
    if comm.rank == 0:
        print(f"# {'bytes':>10} {'us one way':>12} {'MB/s':>12}", flush=True)
    for size in sizes:
        loops = options.loop or max(10, min(1000, (1 << 26) // max(size, 1)))
        data = np.zeros(size, "u1")
        start = 0.0
        for turn in range(-options.skip, loops):
            if turn == 0:
                start = Wtime()
            if comm.rank == 0:
                _send(comm, data, 1, options.objects)
                _receive(comm, data, 1, options.objects)
            elif comm.rank == 1:
                _receive(comm, data, 0, options.objects)
                _send(comm, data, 0, options.objects)
        seconds = (Wtime() - start) / loops / 2
        if comm.rank == 0:
            print(f"  {size:10} {seconds * 1e6:12.2f} {size / seconds / 1e6:12.2f}", flush=True)
    return 0


def _send(comm: Any, data: Any, to: int, objects: bool) -> None:
    if objects:
        comm.send(data, to)
    else:
        comm.Send(data, to)


def _receive(comm: Any, data: Any, source: int, objects: bool) -> None:
    if objects:
        comm.recv(None, source)
    else:
        comm.Recv(data, source)


COMMANDS: dict[str, Command] = {"helloworld": helloworld, "ringtest": ringtest, "pingpong": pingpong}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: ``sys.argv[1:]``) in each rank; return the exit status."""
    from .MPI import COMM_WORLD

    words = list(sys.argv[1:] if arguments is None else arguments)
    command = COMMANDS.get(words[0]) if words else None
    if command is None:
        if COMM_WORLD.rank == 0:
            lines = [f"  {name:12} {command.__doc__}" for name, command in COMMANDS.items()]
            print("usage: python -m mpi4py.bench COMMAND [options]", *lines, sep="\n")
        return 0 if not words or words[0] in ("-h", "--help") else 2
    parser = argparse.ArgumentParser(prog=f"mpi4py.bench {words[0]}", description=command.__doc__)
    return command(COMM_WORLD, parser, words[1:])


if __name__ == "__main__":
    sys.exit(main())
