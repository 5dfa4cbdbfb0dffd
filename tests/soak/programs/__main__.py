"""python -m tests.soak.programs --kills N [--program redis nginx postgres mixed] [--sanitizer asan|tsan] [--seed N]"""

import argparse
import sys
import tempfile
from pathlib import Path

from .campaign import Outcome, campaign
from .sanitizing import FLAGS, Sanitizer
from .servers import SERVERS, why_not

parser = argparse.ArgumentParser(prog="python -m tests.soak.programs", description=__doc__)
parser.add_argument("--kills", type=int, default=300, help="of each program")
parser.add_argument("--program", nargs="+", default=list(SERVERS), choices=list(SERVERS))
parser.add_argument("--after", nargs="+", default=["0", "3", "0", "7", "pays"], help="FASTSOCK_UPGRADE_AFTER, by turns")
parser.add_argument("--each", type=int, default=100, help="kills with one setting and the same clients")
parser.add_argument("--sanitizer", choices=list(FLAGS), help="of the preloaded library, which is built for this")
parser.add_argument("--seed", type=int, default=1)


def main(arguments: argparse.Namespace) -> int:
    if arguments.sanitizer is None:
        return kill(arguments, None)
    with tempfile.TemporaryDirectory(prefix="fastsock-") as folder:
        sanitizer = Sanitizer(arguments.sanitizer, Path(folder))
        sanitizer.build()
        failed = kill(arguments, sanitizer)
        reports = sanitizer.reports()
    for report in reports:
        print(report, flush=True)
    return int(failed or bool(reports))


def kill(arguments: argparse.Namespace, sanitizer: Sanitizer | None) -> int:
    failed = False
    for name in arguments.program:
        reason = why_not(name)
        if reason is not None:
            print(f"{name}: left out, {reason}", flush=True)
            continue
        total = Outcome()
        for at, first in enumerate(range(0, arguments.kills, arguments.each)):
            after = arguments.after[at % len(arguments.after)]
            count = min(arguments.each, arguments.kills - first)
            total.add(campaign(name, count, arguments.seed + at, after, sanitizer))
            print(f"{name}: {total}", flush=True)
            if total.problems:
                failed = True
                break
    return int(failed)


sys.exit(main(parser.parse_args()))
