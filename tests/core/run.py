"""Builds and runs the C core's own tests: `python -m tests.core.run [--short] [plain] [asan] [tsan] [fuzz]`."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODES = ("plain", "asan", "tsan", "fuzz")
# of the full amount of work, full run and short run; a sanitizer makes everything slower
SCALE = {"plain": (1.0, 0.3), "asan": (0.5, 0.1), "tsan": (0.3, 0.05)}
FUZZ_SECONDS = (300, 15)
TARGETS = ("fuzz_open", "fuzz_calls", "fuzz_frames")
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


def run_tests(mode: str, folder: Path, short: bool, extra: list[str]) -> tuple[int, int]:
    command = [str(build(mode, folder) / "core_tests"), "--scale", str(SCALE[mode][short]), *extra]
    if mode == "tsan":
        command.append("--threads-only")  # it cannot follow a second process through shared memory
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**OPTIONS, **os.environ})
    assert process.stdout is not None
    counts = (0, 1)
    for line in process.stdout:
        found = re.fullmatch(r"(\d+) passed, (\d+) failed\n", line)
        if found:
            counts = int(found[1]), int(found[2])
        else:
            print(line, end="", flush=True)
    process.wait()
    return counts


def run_fuzz(folder: Path, short: bool) -> tuple[int, int]:
    if not shutil.which("clang"):
        print("fuzz: no clang here, skipped")
        return 0, 0
    target = build("fuzz", folder)
    passed = failed = 0
    for name in TARGETS:
        corpus = target / f"corpus_{name}"
        corpus.mkdir(exist_ok=True)
        command = [
            str(target / name),
            f"-max_total_time={FUZZ_SECONDS[short]}",
            "-max_len=2000",
            "-timeout=10",
            "-print_final_stats=0",
            "-verbosity=0",
            f"-artifact_prefix={target}/{name}-",
            str(corpus),
        ]
        result = subprocess.run(
            command,
            env={**OPTIONS, **os.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        good = result.returncode == 0
        passed, failed = passed + good, failed + (not good)
        print(f"{name:<64} {'passed' if good else 'FAILED'} ({FUZZ_SECONDS[short]} s)")
        if not good:
            print(result.stdout[-6000:])
    return passed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modes", nargs="*", help=f"of {', '.join(MODES)}; all by default")
    parser.add_argument("--short", action="store_true", help="all modes within four minutes on two cores")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--seed", help="of the random schedules; a failure prints it")
    parser.add_argument("--build", help="folder for what is built (default: a temporary one of this user)")
    arguments = parser.parse_args()
    modes = arguments.modes or list(MODES)
    unknown = set(modes) - set(MODES)
    if unknown:
        parser.error(f"no such mode: {', '.join(sorted(unknown))}; choose from {', '.join(MODES)}")
    extra = (["--only", arguments.only] if arguments.only else []) + (
        ["--seed", arguments.seed] if arguments.seed else []
    )
    folder = Path(arguments.build or Path(tempfile.gettempdir()) / f"fastsock-core-tests-{os.getuid()}")
    folder.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for mode in modes:
        print(f"== {mode}", flush=True)
        good, bad = (
            run_fuzz(folder, arguments.short) if mode == "fuzz" else run_tests(mode, folder, arguments.short, extra)
        )
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
