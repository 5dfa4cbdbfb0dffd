"""How fast is a socket? Ping-pong and stream, 1 B to 64 MiB, fastsock beside its peers.

    python bench/sockets.py                     everything, some minutes
    python bench/sockets.py --quick             less than a minute
    python bench/sockets.py --peers tcp,shm --sizes 1,64k,1m --json out.json --plot out.png

Every sample is one turn of many: all peers are measured one after the other, again and again, each in a pair of
processes of its own. Ratios are taken within a turn. The round trip of a cache line between the two cores is
probed around each sample, because a virtual machine's cores may be near each other or far, and change.
"""

from __future__ import annotations

import argparse
import sys

from common import exchange, machine, plot, record, sizes, summary, table
from common.interleave import Skipped
from common.peers.catalogue import CATALOGUE, choose

SIZES = "1,16,64,256,1k,4k,16k,64k,256k,1m,4m,16m,64m"
QUICK_SIZES = "1,1k,64k,1m,16m"


def main() -> int:
    options = _options()
    peers = choose(options.peers, options.buffers)
    across = sizes.parse(options.sizes or (QUICK_SIZES if options.quick else SIZES))
    cells = [(what, size) for size in across for what in options.what.split(",")]
    skipped = Skipped()
    samples = exchange.measure(
        list(peers.values()),
        cells,
        cores=options.pin,
        groups=1 if options.quick else options.groups,
        turns=3 if options.quick else options.turns,
        seconds=0.02 if options.quick else options.seconds,
        skipped=skipped,
    )
    rows = summary.rows(samples, {name: make().baseline for name, make in peers.items()})
    print(table.matrices(rows))
    if options.long:
        print("\n" + table.long(rows))
    for peer, reason in skipped.items():
        print(f"\nnot measured: {peer}: {reason}")
    if options.json:
        record.write(options.json, {"rows": rows, "samples": samples, "skipped": skipped})
    if options.plot:
        _plot(options.plot, rows)
    return 0 if rows else 1


def _plot(file: str, rows: list[summary.Row]) -> None:
    placements = [r.placement for r in rows]
    try:
        plot.write(file, rows, max(set(placements), key=placements.count))
    except ImportError as error:
        print(f"no plot: {error}", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help=f"which, separated by commas, of: {', '.join(CATALOGUE)} (default: all)")
    parser.add_argument("--sizes", help=f"bytes, with k and m (default: {SIZES})")
    parser.add_argument("--what", default="ping-pong,stream", help="ping-pong, stream or both (default: both)")
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the two ends' cores (default: 0,1)")
    parser.add_argument("--buffers", choices=("bytearray", "numpy"), default="bytearray",
                        help="what holds the bytes; numpy's get huge pages from 4 MiB on")  # fmt: skip
    parser.add_argument("--groups", type=int, default=2, help="how often all processes are spawned anew")
    parser.add_argument("--turns", type=int, default=4, help="samples in each group")
    parser.add_argument("--seconds", type=float, default=0.04, help="length of one sample")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and samples")
    parser.add_argument("--long", action="store_true", help="also one line for each row, with spread and probe")
    parser.add_argument("--json", metavar="FILE", help="write rows and samples")
    parser.add_argument("--plot", metavar="FILE.png", help="latency and bandwidth curves (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
