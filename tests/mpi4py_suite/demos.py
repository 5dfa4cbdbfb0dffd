"""Runs mpi4py's demos and the programs of its tutorial, as they are, over fastsock.mpj.

    python tests/mpi4py_suite/demos.py                      all of them
    python tests/mpi4py_suite/demos.py --match 'osu_*' --device sysvdev --details

Exit status: 0 all ended well, 1 one did not, 2 they could not be had.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.mpi4py_suite import running, source  # noqa: E402

# Dynamic processes, GPUs and what wraps a C library's handles are left out.
LEFT_OUT = ("Spawn", "Open_port", "cupy", "MPI.Comm.Get_parent")


@dataclass(frozen=True)
class Demo:
    """A program and how many ranks it is run on."""

    name: str
    file: Path
    ranks: int
    arguments: tuple[str, ...] = ()
    stdin: str = ""


def demos(folder: Path) -> list[Demo]:
    """The programs of mpi4py's folder demo/, with the numbers of ranks that its makefiles use."""
    found = [Demo("helloworld", folder / "helloworld.py", 5)]
    for file in sorted(folder.glob("osu_*.py")):
        found.append(Demo(file.stem, file, 4 if "lat" not in file.stem and "bw" not in file.stem else 2))
    for name in ("cpi-cco", "cpi-rma"):
        found.append(Demo(name, folder / "compute-pi" / f"{name}.py", 5, (), "100\n"))
    for words in ("threads=true", "threads=false", "thread_level=single", "thread_level=multiple", "fast_reduce=true",
                  "fast_reduce=false", "recv_mprobe=true", "recv_mprobe=false", "irecv_bufsz=1024", "errors=default",
                  "errors=exception", "errors=abort", "errors=fatal"):  # fmt: skip
        found.append(Demo(f"init-fini {words}", folder / "init-fini" / "test_0.py", 2, (words,)))
    for file in sorted((folder / "init-fini").glob("test_[1-9]*.py")):
        found.append(Demo(f"init-fini {file.stem}", file, 2))
    for file in sorted((folder / "mpi-ref-v1").glob("ex-*.py")):
        for ranks in (1, 2, 5):
            found.append(Demo(f"mpi-ref {file.stem}, {ranks} ranks", file, ranks))
    found.append(Demo("mandelbrot", folder / "mandelbrot" / "mandelbrot.py", 7))
    for name in ("threads", "onesided", "scalable", "mpi3"):
        found.append(Demo(f"nxtval-{name}", folder / "nxtval" / f"nxtval-{name}.py", 5))
    found.append(Demo("reductions", folder / "reductions" / "test_reductions.py", 5, ("-q",)))
    found.append(Demo("sequential", folder / "sequential" / "test_seq.py", 5))
    for name in ("cpi", "ring", "threads"):
        found.append(Demo(f"profiling {name}", folder / "profiling" / f"{name}.py", 4))
    found.append(Demo("threads sendrecv", folder / "threads" / "sendrecv.py", 1))
    for name in ("run_julia", "run_mandelbrot"):
        found.append(Demo(f"futures {name}", folder / "futures" / f"{name}.py", 3))
    found.append(Demo("test-run", folder / "test-run" / "test_run.py", 1, ("-q",)))
    return found


def tutorial(page: Path, folder: Path) -> list[Demo]:
    """The literal blocks of the tutorial that are whole programs, each written to a file in `folder`."""
    text = page.read_text(encoding="utf-8")
    found = []
    for number, match in enumerate(re.finditer(r"^\* (.+?)::\n\n((?:(?: {2,}.*)?\n)+)", text, re.M), 1):
        title, block = match[1], textwrap.dedent(match[2])
        if not block.startswith("from mpi4py") or any(word in block for word in LEFT_OUT):
            continue
        file = folder / f"tutorial_{number}.py"
        file.write_text(block, encoding="utf-8")
        found.append(Demo(f"tutorial: {title}", file, 2 if "0 and 1" in block or "dest=1" in block else 4))
    return found


def run(demo: Demo, command: list[str], limit: float) -> tuple[bool, str]:
    """Whether it ended well, and the end of what it printed."""
    parts = [part.format(ranks=demo.ranks, limit=limit) for part in command]
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.write(demo.stdin)
        stdin.seek(0)
        output, lapsed, status = running.output_of(
            [*parts, str(demo.file), *demo.arguments],
            dict(os.environ),
            limit + 15,
            stdin=stdin,
            folder=demo.file.parent,
        )
    return status == 0 and not lapsed, output


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="*", metavar="GLOB", help="names (default: all)")
    parser.add_argument("--device", default="iodev")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one program")
    parser.add_argument("--mpiexec", metavar="COMMAND", help="another MPI's; {ranks} is filled in")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the ranks (default: this one)")
    parser.add_argument("--source", type=Path, default=HERE / ".source", help="where mpi4py's sources are kept")
    parser.add_argument("--details", action="store_true", help="print what failed programs printed")
    options = parser.parse_args(argv)
    try:
        root = source.tests(options.source).parent
    except source.SourceError as error:
        print(error, file=sys.stderr)
        return 2
    command = [options.python, "-m", "fastsock.mpj.run", "-n", "{ranks}", "--timeout", "{limit}", "--as-mpi4py"]
    command += ["--device", options.device]
    if options.mpiexec:
        command = [*shlex.split(options.mpiexec), options.python]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        chosen = demos(root / "demo") + tutorial(root / "docs" / "source" / "tutorial.rst", Path(folder))
        chosen = [demo for demo in chosen if Path(demo.name.replace("/", " ")).match(options.match)]
        for demo in chosen:
            well, output = run(demo, command, options.limit)
            failed += not well
            print(f"{'ok' if well else 'FAILED':8}{demo.name}", flush=True)
            if not well and options.details:
                print("    " + output.strip().replace("\n", "\n    "))
    print(f"{len(chosen) - failed} ended well, {failed} did not")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
