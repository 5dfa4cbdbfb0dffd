"""Parallel matrix multiplication on a ring of processes, by each way that a block can go to another process.

    python examples/pmm.py                          two workers, matrices of 256 x 256
    python examples/pmm.py --workers 4 --size 512

The algorithm is pMM (C.-C. Chang and T. von Eicken, "Interfacing Java with the Virtual Interface Architecture", 1999,
section 5.1). Each of p workers holds n/p columns of A, B and C. To its columns of C a worker adds the product of the
block of A that it has and the rows of B that belong to that block: a block gaxpy. Then each block of A goes one worker
to the right. After p such steps the product is whole.

The time in communication is taken as there: the time without computation, less the time of the barriers alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from statistics import median
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the workers are what runs in parallel
import numpy as np

from fastsock import attach, buffers, explain, socket
from fastsock.config import configure

Array = Any
COPY, PIN, POSTED, ALLOCATED = "copy", "pin", "posted", "allocated"
BUFFER = "buffer handed over"
# How a block is sent: copied through the ring, or read out of the sender's memory. Where it is received: in memory that
# is there, or in memory allocated on arrival.
VARIANTS = [f"{COPY}, {POSTED}", f"{COPY}, {ALLOCATED}", f"{PIN}, {POSTED}", f"{PIN}, {ALLOCATED}", BUFFER]
DIRECT_FROM = 4096  # bytes: from here on `pin` may read from the sender. It does so where that is faster
TURNS, SECONDS = 5, 0.1


class Arrays:
    """Blocks are arrays: `send_array`, and `recv_array_into` or `recv_array`."""

    def __init__(self, own: Array, posted: bool) -> None:
        self.own = self.block = own
        self.room = [np.empty_like(own), np.empty_like(own)] if posted else []

    def expect(self, left: socket.socket) -> None:
        """Be ready for what will come."""

    def send(self, right: socket.socket) -> None:
        right.send_array(self.block)

    def receive(self, left: socket.socket) -> Array:
        if not self.room:
            return left.recv_array()
        return left.recv_array_into(self.room[self.block is self.room[0]])

    def accept(self, received: Array) -> None:
        self.block = received

    def begin_again(self) -> None:
        self.block = self.own


class Handed:
    """Blocks are registered buffers: a worker hands on what it has, and no byte is copied."""

    def __init__(self, own: Array) -> None:
        self.own = self.held = buffers.RegisteredBuffer(own.nbytes)
        self.received: list[buffers.RegisteredBuffer] = []
        self.sent = self.handed_over = 0
        self.shape = own.shape
        self.block[...] = own

    @property
    def block(self) -> Array:
        return self.held.view("f8", self.shape)

    def expect(self, left: socket.socket) -> None:
        """From now on buffers are handed over; before, the other end would copy them."""
        buffers.expect(left)

    def send(self, right: socket.socket) -> None:
        self.handed_over += buffers.send_buffer(right, self.held)
        self.sent += 1

    def receive(self, left: socket.socket) -> Any:
        return buffers.recv_buffer(left)

    def accept(self, received: Any) -> None:
        self.held = received
        self.received.append(received)

    def begin_again(self) -> None:
        """Each block goes home by the way that it came, from worker to worker."""
        while self.received:
            buffer = self.received.pop()
            buffer.wait()
            buffer.release()
        self.own.wait()
        self.held = self.own


class Worker:
    """One of `workers`, with its columns of matrices of `size` x `size`. Arrays hold columns one after the other."""

    def __init__(self, rank: int, workers: int, size: int) -> None:
        self.rank, self.workers, self.width = rank, workers, size // workers
        random = np.random.default_rng(1)
        self.a, self.b = random.random((2, size, size))
        self.mine = slice(rank * self.width, (rank + 1) * self.width)
        self.columns_b = self.b[:, self.mine].T.copy()
        self.columns_c = np.zeros((self.width, size))
        self.product = np.empty_like(self.columns_c)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.rings: dict[str, tuple[socket.socket, socket.socket, Any]] = {}

    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()
        return host, port

    def join(self, variant: str, right: tuple[str, int]) -> str:
        """Connect to the worker at the right, and take the connection of the one at the left. Returns the path."""
        send, _, receive = variant.partition(", ")
        configure(direct_min=DIRECT_FROM if send == PIN else 0)
        if self.rank % 2 == 0:  # so that not all wait for somebody to accept
            to_right = socket.create_connection(right)
            from_left, _ = self.listener.accept()
            ends = to_right, from_left
        else:
            from_left, _ = self.listener.accept()
            to_right = socket.create_connection(right)
            ends = from_left, to_right
        for each in ends:
            attach(each)  # from the first byte on
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = self.a[:, self.mine].T.copy()
        ring = Handed(own) if variant == BUFFER else Arrays(own, receive == POSTED)
        ring.expect(from_left)
        self.rings[variant] = to_right, from_left, ring
        return to_right.transport

    def multiply(self, variant: str, times: int, compute: bool, communicate: bool) -> float:
        """Seconds for so many products, or for parts of what they take."""
        right, left, ring = self.rings[variant]
        self.barrier(right, left)
        start = time.perf_counter()
        for _ in range(times):
            self.columns_c[...] = 0
            for step in range(self.workers):
                if step and communicate:
                    self.shift(right, left, ring)
                if compute:
                    self.add_product(ring.block, (self.rank - step) % self.workers)
                self.barrier(right, left)
            ring.begin_again()
        return time.perf_counter() - start

    def shift(self, right: socket.socket, left: socket.socket, ring: Any) -> None:
        """Each block goes to the right. Only every other worker sends first: else all might wait for a receiver."""
        if self.rank % 2 == 0:
            ring.send(right)
            ring.accept(ring.receive(left))
        else:
            received = ring.receive(left)
            ring.send(right)
            ring.accept(received)

    def add_product(self, block: Array, owner: int) -> None:
        """The block gaxpy: columns of C += columns of A times their rows of B."""
        rows = slice(owner * self.width, (owner + 1) * self.width)
        np.matmul(self.columns_b[:, rows], block, out=self.product)
        self.columns_c += self.product

    def barrier(self, right: socket.socket, left: socket.socket) -> None:
        """Two bytes go round: when the first one is back all have come, and the second one tells them."""
        for _ in range(2):
            if self.rank == 0:
                right.sendall(b"b")
                left.recv(1)
            else:
                left.recv(1)
                right.sendall(b"b")

    def share_past_the_ring(self, variant: str) -> float:
        """The part of the blocks that was read out of the sender, or handed over."""
        _, left, ring = self.rings[variant]
        if variant == BUFFER:
            return float(ring.handed_over / ring.sent)
        seen = explain(left)
        return (seen.bytes_direct or 0) / (seen.bytes_received or 1)

    def check(self, variant: str) -> float:
        """Multiply once. Returns the largest difference from numpy's product."""
        self.multiply(variant, 1, True, True)
        return float(np.abs(self.columns_c - (self.a @ self.b)[:, self.mine].T).max())


class Measured:
    """The seconds of a variant: of whole products, of all but their computation, and of their barriers alone."""

    def __init__(self) -> None:
        self.whole: list[float] = []
        self.moving: list[float] = []
        self.barriers: list[float] = []

    def turn(self, multiply: Callable[[int, bool, bool], float]) -> None:
        """Measure each once."""
        times = max(1, min(500, int(SECONDS / multiply(1, True, True))))
        self.whole.append(multiply(times, True, True) / times)
        self.moving.append(multiply(times, False, True) / times)
        self.barriers.append(multiply(times, False, False) / times)

    @property
    def communication(self) -> list[float]:
        """Seconds a product, by turn."""
        return [moving - barriers for moving, barriers in zip(self.moving, self.barriers, strict=True)]


class Workers:
    """Processes that are told what to do, each over a pipe."""

    def __init__(self, count: int, size: int) -> None:
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(count):
            here, there = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, args=(there, rank, count, size), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def all(self, method: str, *arguments: Any, each: list[tuple[Any, ...]] | None = None) -> list[Any]:
        """Have every worker call a method; `each` adds arguments of its own. Returns what they returned."""
        for rank, pipe in enumerate(self.pipes):
            pipe.send((method, (*arguments, *(each[rank] if each else ()))))
        answers: list[Any] = [None] * len(self.pipes)
        missing = dict(zip(self.pipes, range(len(self.pipes)), strict=True))
        while missing:
            ready = wait(missing)
            for pipe in [each for each in missing if each in ready]:
                answer = pipe.recv()
                if isinstance(answer, Exception):  # the others may wait for this worker
                    raise answer
                answers[missing.pop(pipe)] = answer
        return answers

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()


def work(pipe: Connection, rank: int, count: int, size: int) -> None:
    worker = Worker(rank, count, size)
    while (order := pipe.recv()) is not None:
        method, arguments = order
        try:
            pipe.send(getattr(worker, method)(*arguments))
        except Exception as error:
            pipe.send(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the matrices (default: 256)")
    parser.add_argument("--turns", type=int, default=TURNS, help="of each variant (default: %(default)s)")
    options = parser.parse_args()
    if options.workers < 2 or options.turns < 1:
        parser.error("a ring has at least two workers, and there is at least one turn")
    if options.size % options.workers:
        parser.error(f"{options.size} columns cannot be dealt out evenly to {options.workers} workers")
    workers = Workers(options.workers, options.size)
    addresses = workers.all("address")
    to_the_right = [(address,) for address in addresses[1:] + addresses[:1]]
    found = {variant: Measured() for variant in VARIANTS}
    for variant in VARIANTS:
        paths = workers.all("join", variant, each=to_the_right)
        difference = max(workers.all("check", variant))
        print(f"{variant}: path {'/'.join(sorted(set(paths)))}, the largest difference from numpy is {difference:.1e}")
        if not difference < 1e-9 * options.size:
            return 1
    for _ in range(options.turns):
        for variant, measured in found.items():
            measured.turn(lambda *what, variant=variant: workers.all("multiply", variant, *what)[0])
    directly = {variant: workers.all("share_past_the_ring", variant)[0] for variant in VARIANTS}
    workers.close()
    tell(options.workers, options.size, found, directly)
    return 0


def tell(workers: int, size: int, found: dict[str, Measured], directly: dict[str, float]) -> None:
    """One row a variant. The ratios are medians of those within a turn."""
    print(f"\n{workers} workers, {size} x {size}: beside {VARIANTS[0]}")
    header = f"{'communication':>16}{'its time by copy':>18}{'of the whole':>14}{'whole':>10}"
    print(f"{'':<20}{header}{'Mflop/s':>10}{'past the ring':>15}")
    beside = found[VARIANTS[0]].communication
    for variant, measured in found.items():
        spent = measured.communication
        ratio = median(mine / copied for mine, copied in zip(spent, beside, strict=True))
        share = median(mine / whole for mine, whole in zip(spent, measured.whole, strict=True))
        whole = median(measured.whole)
        speed = 2 * size**3 / whole / 1e6
        times = f"{median(spent) * 1e6:>13.0f} us{ratio:>18.2f}{share:>14.0%}{whole * 1e6:>7.0f} us"
        print(f"{variant:<20}{times}{speed:>10.0f}{directly[variant]:>15.0%}")


if __name__ == "__main__":
    sys.exit(main())
