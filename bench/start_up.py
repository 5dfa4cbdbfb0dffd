"""What does fastsock add to the start of a Python: below the launcher, and in a launched program's child Pythons?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from common import question
from common.question import Options
from common.target import Result

from fastsock.launching import children

MOST_MS = 40
PROGRAM = ["-c", "pass"]
PLAIN, LAUNCHED, CHILD = "plain", "python -m fastsock.launcher", "a child Python"
COMMANDS = {PLAIN: PROGRAM, LAUNCHED: ["-m", "fastsock.launcher", *PROGRAM], CHILD: PROGRAM}


def measure(options: Options) -> list[Result]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    covered = dict(environ)
    children.cover(covered)
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as elsewhere:  # -m and -c look in the folder that they start in
        for turn in range(options.times(6, 31)):
            for name, words in COMMANDS.items():
                seconds = _run(words, covered if name == CHILD else environ, elsewhere)
                if turn:  # the first one may have compiled modules
                    took[name].append(seconds * 1000)
    results = []
    for name in (LAUNCHED, CHILD):
        pairs = list(zip(took[name], took[PLAIN], strict=True))
        note = f"{median(took[name]):.1f} ms, plain {median(took[PLAIN]):.1f} ms"
        most = MOST_MS if name == LAUNCHED else None
        results += [
            Result(f"{name} adds", median(one - plain for one, plain in pairs), "ms", at_most=most, note=note),
            Result(f"{name}, times a plain start", median(one / plain for one, plain in pairs), "x", note=note),
        ]
    return results


def _run(words: list[str], environ: dict[str, str], folder: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *words], env=environ, cwd=folder, check=True)
    return time.perf_counter() - begun


if __name__ == "__main__":
    question.run(measure, __doc__)
