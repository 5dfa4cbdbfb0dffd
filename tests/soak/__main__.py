"""python -m tests.soak --minutes 5 --connections 200 | --schedules N | --kills N | --many N [--path shm] [--seed N]"""

import argparse
import sys

from fastsock.config import KNOWN_TRANSPORTS

from .run import main

parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
parser.add_argument("--minutes", type=float, default=5.0, help="time on each path")
parser.add_argument("--connections", type=int, default=200, help="how many are open at the same time")
parser.add_argument("--schedules", type=int, metavar="N", help="instead: N random schedules of calls, beside plain TCP")
parser.add_argument("--kills", type=int, metavar="N", help="instead: N deaths of either end in such schedules")
parser.add_argument("--many", type=int, metavar="N", help="instead: N short connections, one after the other")
parser.add_argument("--gaining", action="store_true", help="of these, nearly all gain memory")
parser.add_argument("--path", nargs="+", default=["shm"], choices=[*KNOWN_TRANSPORTS, "plain"])
parser.add_argument("--seed", type=int, default=1, help="the first, where there are many")


def random_calls(arguments: argparse.Namespace) -> int:
    from .comparing import Comparison, kill

    count = arguments.schedules or arguments.kills
    seeds = range(arguments.seed, arguments.seed + count)
    print(f"seeds {seeds[0]} to {seeds[-1]}", flush=True)
    if arguments.kills:
        result = kill(arguments.path, seeds, tell)
    else:
        with Comparison(arguments.path, minimise=True, tell=tell) as comparison:
            result = comparison.run(seeds)
    print(result)
    return int(bool(result.problems))


def many_connections(arguments: argparse.Namespace) -> int:
    from .many import many_by_turns

    for path in arguments.path:
        for told in many_by_turns(path, arguments.seed, arguments.many, arguments.gaining):
            tell(f"{path}: {told}")
    return 0


def tell(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    given = parser.parse_args()
    if given.many:
        sys.exit(many_connections(given))
    sys.exit(random_calls(given) if given.schedules or given.kills else main(given))
