"""python -m tests.soak --minutes 5 --connections 200 [--path shm unix tcp plain] [--seed N]"""

import argparse
import sys

from .run import main

parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
parser.add_argument("--minutes", type=float, default=5.0, help="time on each path")
parser.add_argument("--connections", type=int, default=200, help="how many are open at the same time")
parser.add_argument("--path", nargs="+", default=["shm"], choices=["shm", "unix", "tcp", "plain"])
parser.add_argument("--seed", type=int, default=1)

if __name__ == "__main__":
    sys.exit(main(parser.parse_args()))
