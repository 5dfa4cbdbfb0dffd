"""Builds and runs the C core's own tests: `python -m tests.core.run [--short] [plain] [asan] [tsan] [fuzz]`."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODES = ("plain", "asan", "tsan", "fuzz")
# of the full amount of work, full run and short run; a sanitizer makes everything slower
SCALE = {"plain": (1.0, 0.3), "asan": (0.5, 0.1), "tsan": (0.3, 0.05)}
FUZZ_SECONDS = (300, 15)
TARGETS = (
    "active/fuzz_active",
    "registered/fuzz_words",
    "stream/fuzz_open",
    "stream/fuzz_calls",
    "switch/fuzz_loop",
    "switch/fuzz_offer",
    "switch/fuzz_switch",
    "engine/fuzz_frames",
    "engine/fuzz_memory",
    "team/fuzz_team",
    "remote/fuzz_span",
)
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0",
}


def build(mode: str, folder: Path) -> Path:
    target = folder / mode
    jobs = str(min(2, os.cpu_count() or 1))
    compiler = "clang" if shutil.which("clang") else "gcc"
    subprocess.run(
        ["make", "-s", "-j", jobs, "-C", str(HERE), f"MODE={mode}", f"BUILD={target}", f"CC={compiler}"], check=True
    )
    return target


class Tally:
    """What passed, and of what failed all that it said."""

    def __init__(self) -> None:
        self.passed = 0
        self.failures: dict[tuple[str, str], str] = {}  # by mode and test

    def add(self, mode: str, test: str, good: bool, said: str) -> None:
        if good:
            self.passed += 1
        else:
            self.failures[mode, test] = said


def run_tests(mode: str, folder: Path, short: bool, extra: list[str], tally: Tally) -> None:
    command = [str(build(mode, folder) / "core_tests"), "--scale", str(SCALE[mode][short]), *extra]
    if mode == "tsan":
        command.append("--threads-only")  # it cannot follow a second process through shared memory
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**OPTIONS, **os.environ},
    )
    assert process.stdout is not None
    said: list[str] = []  # since the last verdict
    for line in process.stdout:
        if re.fullmatch(r"\d+ passed, \d+ failed\n", line):
            break
        print(line, end="", flush=True)
        said.append(line)
        verdict = re.match(r"(\w+) +(passed|FAILED)", line)
        if verdict:
            tally.add(mode, verdict[1], verdict[2] == "passed", "".join(said))
            said.clear()
    else:
        tally.add(mode, "", False, "".join(said) + "ended before its tests did\n")
    process.wait()


def sow(name: str, corpus: Path) -> None:
    """Gives fuzz_frames each kind of frame in each state to begin with: by chance alone it would not get far."""
    if name != "fuzz_frames":
        return
    for place in range(17):
        for kind in range(1, 14):
            for length in (0, 2):
                seed = bytes([place << 2, 5, 3, length, 0x10, kind, 1])
                (corpus / f"seed-{place}-{kind}-{length}").write_bytes(seed)


def fuzz(target: Path, path: str, seconds: int) -> subprocess.CompletedProcess[str]:
    name = Path(path).name
    corpus = target / f"corpus_{name}"
    corpus.mkdir(exist_ok=True)
    sow(name, corpus)
    command = [
        str(target / path),
        f"-max_total_time={seconds}",
        "-max_len=2000",
        "-timeout=10",
        "-print_final_stats=0",
        "-verbosity=0",
        f"-artifact_prefix={target}/{name}-",
        str(corpus),
    ]
    return subprocess.run(
        command,
        env={**OPTIONS, **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def run_fuzz(folder: Path, short: bool, tally: Tally) -> None:
    if not shutil.which("clang"):
        print("fuzz: no clang here, skipped")
        return
    target = build("fuzz", folder)
    seconds = FUZZ_SECONDS[short]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path, result in zip(TARGETS, pool.map(lambda path: fuzz(target, path, seconds), TARGETS), strict=True):
            name, good = Path(path).name, result.returncode == 0
            print(f"{name:<64} {'passed' if good else 'FAILED'} ({seconds} s)")
            reached = [line for line in result.stdout.splitlines() if line.startswith("reached: ")]
            print("".join(line + "\n" for line in reached), end="", flush=True)
            tally.add("fuzz", name, good, result.stdout[-6000:])


def default_folder() -> Path:
    """One checkout must not link the objects of another."""
    checkout = zlib.crc32(bytes(HERE))
    return Path(tempfile.gettempdir()) / f"fastsock-core-tests-{os.getuid()}-{checkout:08x}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modes", nargs="*", help=f"of {', '.join(MODES)}; all by default")
    parser.add_argument("--short", action="store_true", help="all modes within four minutes on two cores")
    parser.add_argument(
        "--twice", action="store_true", help="a test counts as failed when it fails again, alone: for busy machines"
    )
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--seed", help="of the random schedules; a failure prints it")
    parser.add_argument("--build", help="folder for what is built (default: a temporary one of this user and checkout)")
    arguments = parser.parse_args()
    modes = arguments.modes or list(MODES)
    unknown = set(modes) - set(MODES)
    if unknown:
        parser.error(f"no such mode: {', '.join(sorted(unknown))}; choose from {', '.join(MODES)}")
    extra = (["--only", arguments.only] if arguments.only else []) + (
        ["--seed", arguments.seed] if arguments.seed else []
    )
    folder = Path(arguments.build or default_folder())
    folder.mkdir(parents=True, exist_ok=True)
    tally = Tally()
    for mode in modes:
        print(f"== {mode}", flush=True)
        if mode == "fuzz":
            run_fuzz(folder, arguments.short, tally)
        else:
            run_tests(mode, folder, arguments.short, extra, tally)
    print(f"{tally.passed} passed, {len(tally.failures)} failed")
    failed = False
    for (mode, test), said in tally.failures.items():
        print(f"{mode} {test}\n{said}", end="")
        if not (arguments.twice and test and mode != "fuzz"):
            failed = True
            continue
        again = Tally()
        print("alone, once more:", flush=True)
        run_tests(mode, folder, arguments.short, ["--only", test], again)
        failed = failed or bool(again.failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
