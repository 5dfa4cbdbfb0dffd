"""How many times TCP's and AF_UNIX's bandwidth does a stream of messages reach, and how much of what the memory gives?

The floors: the bare ring, one end copying from process to process (process_vm_readv), both ends copying at once."""

from __future__ import annotations

from functools import partial

from common import exchange, question, sizes, summary
from common.exchange import STREAM
from common.peers.catalogue import choose, fast
from common.peers.stream_sockets import TcpPeer
from common.placement import FAR
from common.question import HERE, Options
from common.target import Result

KIB, MIB = 1 << 10, 1 << 20
SHM = "fastsock shm"
TARGETS = {4 * KIB: 12, 64 * KIB: 4, MIB: 6, 16 * MIB: 4}  # times TCP
LARGE = 16 * MIB
FLOORS = ["bare ring", "process_vm_readv", "both ends copying"]
OF_THE_FLOOR = 0.75  # the best one of the run, at each of these sizes
BLOCKS = [MIB, 4 * MIB, 16 * MIB]


def measure(options: Options) -> list[Result]:
    how = {
        "cores": options.cores,
        "groups": options.times(1, 4),
        "turns": options.times(3, 5),
        "seconds": options.pick(0.02, 0.05),
        "skipped": options.skipped,
    }
    samples = exchange.measure(
        list(choose("tcp,shm,unix").values()),
        [(STREAM, size) for size in TARGETS],
        **how,  # type: ignore[arg-type]
    )
    beside_floors = exchange.measure(
        list(choose("shm,ring,readv,both").values()),
        [(STREAM, size) for size in BLOCKS],
        **how,  # type: ignore[arg-type]
    )
    in_arrays = exchange.measure(
        [partial(TcpPeer, "tcp", buffers="numpy"), partial(fast, "shm", buffers="numpy")],
        [(STREAM, LARGE)],
        **how,  # type: ignore[arg-type]
    )

    def line(size: int, places: tuple[str, ...], against: str = "tcp", at_least: float | None = None) -> Result:
        found = summary.compare(samples, STREAM, size, SHM, against, places)
        note = summary.medians(samples, STREAM, size, places)
        what = f"stream {sizes.name(size)}, times {against}"
        return question.ratio(what, found, options.skipped, SHM, at_least=at_least, cores=places[0], note=note)

    def of_the_floor(size: int, place: str) -> Result:
        places = HERE if place == HERE[0] else (place,)
        found = summary.compare_with_best(beside_floors, STREAM, size, SHM, FLOORS, places)
        note = summary.medians(beside_floors, STREAM, size, places)
        what = f"stream {sizes.name(size)}, of the best floor"
        return question.ratio(what, found, options.skipped, SHM, at_least=OF_THE_FLOOR, cores=place, note=note)

    found = summary.compare(in_arrays, STREAM, LARGE, SHM, "tcp", HERE)
    note = summary.medians(in_arrays, STREAM, LARGE, HERE)
    return [
        *(line(size, HERE, at_least=factor) for size, factor in TARGETS.items()),
        line(MIB, HERE, "AF_UNIX", at_least=3),
        question.ratio("stream 16 MiB in numpy arrays (huge pages), times tcp", found, options.skipped, SHM,
                       cores=HERE[0], note=note),
        *(of_the_floor(size, place) for place in (HERE[0], FAR) for size in BLOCKS),
        line(4 * KIB, (FAR,)),
        line(64 * KIB, (FAR,)),
        line(MIB, (FAR,), at_least=4),
        line(16 * MIB, (FAR,), at_least=4),
    ]  # fmt: skip


if __name__ == "__main__":
    question.run(measure, __doc__)
