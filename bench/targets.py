"""Does fastsock reach its targets? Every question after the other, target beside measurement.

python bench/targets.py                 all of it, up to ten minutes, and kernels and model, which take much longer
python bench/targets.py --quick         under a minute; what takes longest is left out, unless --only names it
python bench/targets.py --only ping_pong,stream --json out.json
"""

from __future__ import annotations

import sys
import time

import active
import asyncio_echo
import buffers
import busy_thread
import calls
import dask_comm
import files
import idle
import kernels
import mpj_types
import oversubscribed
import ping_pong
import pmm
import rmi
import send_array
import set_up
import spawn
import start_ranks
import start_up
import staying_tcp
import stream
import whole_programs
import windows
from common import machine, question, record, target
from common.process import Broken, Unusable
from common.question import Options, Question
from common.target import Result
from common.words import Parser
from model import targets as model
from model.samples import Unfit

QUESTIONS: dict[str, Question] = {
    "ping_pong": ping_pong.measure,
    "stream": stream.measure,
    "send_array": send_array.measure,
    "busy_thread": busy_thread.measure,
    "asyncio_echo": asyncio_echo.measure,
    "oversubscribed": oversubscribed.measure,
    "staying_tcp": staying_tcp.measure,
    "set_up": set_up.measure,
    "start_up": start_up.measure,
    "start_ranks": start_ranks.measure,
    "idle": idle.measure,
    "active": active.measure,
    "buffers": buffers.measure,
    "pmm": pmm.measure,
    "mpj_types": mpj_types.measure,
    "spawn": spawn.measure,
    "windows": windows.measure,
    "files": files.measure,
    "rmi": rmi.measure,
    "calls": calls.measure,
    "dask_comm": dask_comm.measure,
    "whole_programs": whole_programs.measure,
    "kernels": kernels.measure,
    "model": model.results,
}
NOT_QUICK = ["calls", "dask_comm", "kernels", "model", "rmi", "whole_programs"]


def main() -> int:
    parser = Parser(description=__doc__)
    question.add_options(parser)
    parser.add_argument("--only", help=f"which, with commas, of: {', '.join(QUESTIONS)}"
                        f" (default: all; with --quick not {', '.join(NOT_QUICK)})")  # fmt: skip
    words = parser.parse_args()
    chosen = words.only.split(",") if words.only else [q for q in QUESTIONS if not (words.quick and q in NOT_QUICK)]
    if unknown := set(chosen) - set(QUESTIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    options = Options(words.quick, words.pin)
    told = machine.description()
    print(f"{told['processor']}, {told['cores']} cores, Linux {told['kernel']}, Python {told['python']}\n")
    answers: dict[str, list[Result]] = {}
    for name in chosen:
        start = time.monotonic()
        try:
            answers[name] = QUESTIONS[name](options)
        except (Broken, Unusable, Unfit) as error:  # the others can be answered
            options.skipped.add(name, str(error))
            answers[name] = [Result(name, None, "", note=str(error))]
        print(f"{name}  ({time.monotonic() - start:.0f} s)\n{target.report(answers[name])}\n", flush=True)
        if words.json:  # what was measured is kept, whatever comes
            record.write(words.json, {"results": answers, "skipped": options.skipped})
    results = [result for answer in answers.values() for result in answer]
    print(target.count(results))
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
