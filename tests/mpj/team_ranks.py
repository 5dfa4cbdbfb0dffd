"""Ranks of one host as a team: `python -m tests.mpj.team_ranks SCENARIO RANKS SEED`; status 0 when all is well."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fastsock.core.binding._engine import Engine

from fastsock.core.binding import _requests, _team
from fastsock.mpj.collectives import meeting
from fastsock.mpj.collectives import team as team_module
from fastsock.testing.process import until_blocked

NUMBERS = {"INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "UINT8": "B", "UINT32": "I", "UINT64": "Q"}
NUMBERS |= {"FLOAT": "f", "DOUBLE": "d", "COMPLEX_DOUBLE": "D"}
FUNCTIONS = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
FUNCTIONS |= {"BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}


class Sent:
    """A request of bytes that are in the stream already."""

    def wait(self) -> None:
        pass


class Pipes(Engine):
    """An engine whose messages are bytes on a stream to each rank: all that forming a team needs."""

    streams: Sequence[socket.socket]

    def send(self, data: bytes, peer: int, tag: int, context: int) -> None:
        self.streams[peer].sendall(data)

    def isend(self, data: bytes, peer: int, tag: int, context: int) -> Sent:
        self.send(data, peer, tag, context)
        return Sent()

    def recv(self, buffer: bytearray, peer: int, tag: int, context: int) -> None:
        data = self.streams[peer].recv(len(buffer), socket.MSG_WAITALL)
        if len(data) < len(buffer):
            raise ConnectionResetError(f"rank {peer}")
        buffer[:] = data


def form(rank: int, streams: Sequence[socket.socket]) -> Any:
    size = len(streams)
    engine = Pipes(rank, size)
    engine.streams = streams
    return team_module.form(engine, 1, range(size), rank, crowded=size > len(os.sched_getaffinity(0)))


def everyones_pid(streams: Sequence[socket.socket], rank: int) -> list[int]:
    """The process of each rank, which they tell each other."""
    pids = [os.getpid()] * len(streams)
    others = [peer for peer in range(len(streams)) if peer != rank]
    for peer in others:
        streams[peer].sendall(os.getpid().to_bytes(8, "little"))
    for peer in others:
        pids[peer] = int.from_bytes(streams[peer].recv(8, socket.MSG_WAITALL), "little")
    return pids


def until_ended(stream: socket.socket) -> None:
    """Returns when the rank at the other end of the stream has ended."""
    assert stream.recv(1) == b""


# ---- random collectives against a plain reference ----


class Plan:
    """What all ranks draw alike: the same collective, and what each of them gives."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.random = random.Random(seed)

    def length(self, most: int) -> int:
        return self.random.randrange(1 << self.random.randrange(most.bit_length() + 1))

    def lengths(self, most: int) -> list[int]:
        if self.random.random() < 0.4:
            return [self.length(most)] * self.size
        return [self.length(most) for _ in range(self.size)]

    def data(self, length: int) -> np.ndarray:
        return np.frombuffer(self.random.randbytes(length), np.uint8).copy()

    def array(self, code: str, length: int) -> np.ndarray:
        generator = np.random.default_rng(self.random.randrange(1 << 30))
        values = generator.integers(0, 4, length)
        return values.astype(code)


def layout(plan: Plan, sizes: list[int]) -> tuple[list[int], int]:
    """Offsets with gaps, in any order, and the room that they need."""
    offsets, at = [0] * len(sizes), 0
    for i in plan.random.sample(range(len(sizes)), len(sizes)):
        at += plan.random.randrange(3)
        offsets[i], at = at, at + sizes[i]
    return offsets, at


def same(what: str, got: Any, expected: Any) -> None:
    if not np.array_equal(got, expected):
        where = int(np.argmax(np.asarray(got) != np.asarray(expected)))
        raise AssertionError(f"{what}: element {where} is {got[where]}, not {expected[where]}")


def barrier(team: Any, plan: Plan) -> None:
    team.barrier()


def bcast(team: Any, plan: Plan) -> None:
    root, data = plan.random.randrange(plan.size), plan.data(plan.length(900_000))
    mine = data.copy() if team.index == root else np.zeros_like(data)
    team.bcast(mine, root)
    same("bcast", mine, data)


def combined(function: Callable[..., Any], parts: Sequence[np.ndarray]) -> np.ndarray:
    result = parts[0]
    for part in parts[1:]:
        result = function(result, part)
    return result


def reduction(plan: Plan, most: int = 500_000) -> tuple[int, int, Callable[..., Any], list[np.ndarray]]:
    name, code = plan.random.choice(list(NUMBERS.items()))
    usable = [op for op in FUNCTIONS if _team.can_reduce(_team.OPERATIONS[op], _team.TYPES[name])]
    operation = plan.random.choice(usable)
    count = plan.length(most) // np.dtype(code).itemsize
    parts = [plan.array(code, count) for _ in range(plan.size)]
    return _team.TYPES[name], _team.OPERATIONS[operation], FUNCTIONS[operation], parts


def reduce(team: Any, plan: Plan) -> None:
    kind, operation, function, parts = reduction(plan)
    root, in_place = plan.random.randrange(plan.size), plan.random.random() < 0.3
    mine, result = parts[team.index].copy(), np.zeros_like(parts[0])
    if team.index == root and in_place:
        result[:] = mine
        team.reduce(None, result, kind, operation, root)
    else:
        team.reduce(mine, result if team.index == root else None, kind, operation, root)
    if team.index == root:
        same("reduce", result, combined(function, parts))


def over_all(name: str) -> Callable[[Any, Plan], None]:
    def run(team: Any, plan: Plan) -> None:
        kind, operation, function, parts = reduction(plan)
        in_place = plan.random.random() < 0.3
        result = parts[team.index].copy() if in_place else np.full_like(parts[0], 3)
        before = result.copy()
        getattr(team, name)(None if in_place else parts[team.index], result, kind, operation)
        many = {"allreduce": plan.size, "scan": team.index + 1, "exscan": team.index}[name]
        same(name, result, combined(function, parts[:many]) if many else before)

    return run


def reduce_scatter(team: Any, plan: Plan) -> None:
    kind, operation, function, parts = reduction(plan)
    counts, rest = [0] * plan.size, len(parts[0])
    for i in range(plan.size - 1):
        counts[i] = plan.random.randrange(min(rest, 2 * rest // (plan.size - i)) + 1)
        rest -= counts[i]
    counts[-1] = rest
    first, own = sum(counts[: team.index]), counts[team.index]
    if plan.random.random() < 0.3:
        result = parts[team.index].copy()
        team.reduce_scatter(None, result, counts, kind, operation)
        result = result[:own]
    else:
        result = np.zeros(own, parts[0].dtype)
        team.reduce_scatter(parts[team.index], result, counts, kind, operation)
    same("reduce_scatter", result, combined(function, parts)[first : first + own])


def gather(team: Any, plan: Plan) -> None:
    sizes, root = plan.lengths(300_000), plan.random.randrange(plan.size)
    parts, (offsets, room) = [plan.data(size) for size in sizes], layout(plan, sizes)
    in_place = plan.random.random() < 0.3
    if team.index != root:
        team.gather(parts[team.index], None, None, None, root)
        return
    result, expected = np.zeros(room, np.uint8), np.zeros(room, np.uint8)
    for part, offset in zip(parts, offsets, strict=True):
        expected[offset : offset + len(part)] = part
    if in_place:
        result[offsets[root] : offsets[root] + sizes[root]] = parts[root]
    team.gather(None if in_place else parts[root], result, sizes, offsets, root)
    same("gather", result, expected)


def scatter(team: Any, plan: Plan) -> None:
    sizes, root = plan.lengths(300_000), plan.random.randrange(plan.size)
    offsets, room = layout(plan, sizes)
    source, in_place = plan.data(room), plan.random.random() < 0.3
    result = np.zeros(sizes[team.index], np.uint8)
    if team.index == root:
        team.scatter(source, sizes, offsets, None if in_place else result, root)
    else:
        team.scatter(None, None, None, result, root)
    if team.index != root or not in_place:
        same("scatter", result, source[offsets[team.index] :][: sizes[team.index]])


def allgather(team: Any, plan: Plan) -> None:
    sizes = plan.lengths(300_000)
    parts, (offsets, room) = [plan.data(size) for size in sizes], layout(plan, sizes)
    result, expected = np.zeros(room, np.uint8), np.zeros(room, np.uint8)
    for part, offset in zip(parts, offsets, strict=True):
        expected[offset : offset + len(part)] = part
    if plan.random.random() < 0.3:
        result[offsets[team.index] : offsets[team.index] + sizes[team.index]] = parts[team.index]
        team.allgather(None, result, sizes, offsets)
    else:
        team.allgather(parts[team.index], result, sizes, offsets)
    same("allgather", result, expected)


def alltoall(team: Any, plan: Plan) -> None:
    most = plan.random.choice([8, 100, 200_000])
    in_place = plan.random.random() < 0.2
    sizes = [plan.lengths(most) for _ in range(plan.size)]  # [from][to]
    if in_place:
        sizes = [[sizes[min(a, b)][max(a, b)] for b in range(plan.size)] for a in range(plan.size)]
    seeds = [[plan.random.randrange(256) for _ in range(plan.size)] for _ in range(plan.size)]
    places = [(layout(plan, sizes[i]), layout(plan, [row[i] for row in sizes])) for i in range(plan.size)]
    (out_offsets, out_room), (in_offsets, in_room) = places[team.index]
    out_sizes, in_sizes = sizes[team.index], [row[team.index] for row in sizes]
    result, expected = np.zeros(in_room, np.uint8), np.zeros(in_room, np.uint8)
    source = result if in_place else np.zeros(out_room, np.uint8)
    for i in range(plan.size):
        start = (in_offsets if in_place else out_offsets)[i]
        source[start : start + out_sizes[i]] = np.arange(out_sizes[i]) + seeds[team.index][i]
        expected[in_offsets[i] : in_offsets[i] + in_sizes[i]] = np.arange(in_sizes[i]) + seeds[i][team.index]
    if in_place:
        team.alltoall(None, None, None, result, in_sizes, in_offsets)
    else:
        team.alltoall(source, out_sizes, out_offsets, result, in_sizes, in_offsets)
    same("alltoall", result, expected)


COLLECTIVES = [barrier, bcast, reduce, over_all("allreduce"), over_all("scan"), over_all("exscan"), reduce_scatter]
COLLECTIVES += [gather, scatter, allgather, alltoall]


def mixed(rank: int, streams: Sequence[socket.socket], seed: int) -> None:
    """Thousands of collectives in a row, most of them small, some followed at once by the next of the same kind."""
    pids = everyones_pid(streams, rank)
    team, plan = form(rank, streams), Plan(len(streams), seed)
    lagging = random.Random(seed * 31 + rank)
    for _ in range(300):
        collective = plan.random.choice(COLLECTIVES)
        if lagging.random() < 0.02:  # a little late: the others spin, or are about to sleep
            for _ in range(lagging.randrange(5000)):
                os.sched_yield()
        if plan.random.random() < 0.02:  # very late: they sleep, at the latest in the barrier
            if rank == plan.random.randrange(plan.size):
                for pid in set(pids) - {os.getpid()}:
                    until_blocked(pid)
            barrier(team, plan)
        for _ in range(plan.random.choice([1, 1, 1, 5])):
            collective(team, plan)
    token = np.zeros(1)
    for i in range(2000):
        token[0] = i if team.index == i % plan.size else -1
        team.bcast(token, i % plan.size)
        assert token[0] == i, f"broadcast {i}: {token[0]}"
    team.barrier()
    team.close()


# ---- failures ----


def killed(rank: int, streams: Sequence[socket.socket], seed: int) -> None:
    """One rank is killed at a random moment; the others are told which one, and told it again."""
    team, size = form(rank, streams), len(streams)
    plan = random.Random(seed)
    victim, calls, length = plan.randrange(size), plan.randrange(300), plan.choice([1, 1000, 200_000])
    source, target = np.ones(length), np.zeros(length)
    team.barrier()
    try:
        for i in range(100_000):
            if rank == victim and i == calls:
                os.kill(os.getpid(), signal.SIGKILL)
            team.allreduce(source, target, _team.TYPES["DOUBLE"], 0)
    except _requests.MessageError as error:
        expect_victim(error, victim)
    else:
        raise AssertionError("nobody told this rank")
    try:
        team.barrier()
    except _requests.MessageError as error:
        expect_victim(error, victim)


def expect_victim(error: _requests.MessageError, victim: int) -> None:
    assert error.code == _requests.PEER_FAILED and error.peer == victim, f"{error.code} {error.peer}: {error}"
    assert f"rank {victim} died" in str(error), error


def finished(rank: int, streams: Sequence[socket.socket], seed: int) -> None:
    """Ranks that made their last call and ended are no failure to those who still read what they left."""
    pids, size = everyones_pid(streams, rank), len(streams)
    team = form(rank, streams)
    late = [1 + i % (size - 1) for i in range(20)]
    for reader in (*late, None):
        data = np.full(50_000, 7.0) if rank == 0 else np.zeros(50_000)
        if rank == reader:
            until_blocked(pids[0])  # which cannot go on, now or in the next broadcast, before this rank has read
        team.bcast(data, 0)
        assert data[0] == data[-1] == 7
    for root in range(1, size):
        gathered = np.zeros(size)
        if rank == root:
            for earlier in range(root):
                until_ended(streams[earlier])
        sizes, offsets = [8] * size, [8 * i for i in range(size)]
        team.gather(np.full(1, rank + 1.0), gathered if rank == root else None, sizes, offsets, root)
        assert rank != root or list(gathered) == [i + 1.0 for i in range(size)]


def interrupted(rank: int, streams: Sequence[socket.socket], seed: int) -> None:
    """A wait hears signals; who leaves by an exception is named to the others."""
    pids, leaver = everyones_pid(streams, rank), len(streams) - 1
    team = form(rank, streams)
    team.barrier()
    if rank == leaver:
        signal.signal(signal.SIGALRM, raise_interrupt)
        try:
            streams[0].sendall(b"b")
            team.barrier()
        except KeyboardInterrupt:
            streams[0].sendall(b"i")
            return
        raise AssertionError("not interrupted")
    if rank == 0:
        assert streams[leaver].recv(1) == b"b"
        until_blocked(pids[leaver])
        os.kill(pids[leaver], signal.SIGALRM)
        assert streams[leaver].recv(1) == b"i"
    try:
        for _ in range(2):  # the leaver had entered the first one
            team.barrier()
    except _requests.MessageError as error:
        assert error.peer == leaver, error
        return
    raise AssertionError("nobody told this rank")


def raise_interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def slow(rank: int, streams: Sequence[socket.socket], seed: int) -> None:
    """Whoever waits long sleeps, and is woken."""
    pids = everyones_pid(streams, rank)
    team = form(rank, streams)
    team.barrier()
    if rank == 0:
        for pid in pids[1:]:
            until_blocked(pid)
    team.barrier()
    token = np.full(1, 5.0) if rank == 0 else np.zeros(1)
    team.bcast(token, 0)
    assert token[0] == 5


def refused(rank: int, streams: Sequence[socket.socket], seed: int) -> None:
    """Where one member cannot take part nobody has a team, and nobody keeps a descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    if rank == 1 and seed % 3 == 0:
        meeting._Member.connect = lambda *_: None
    if rank == 1 and seed % 3 == 1:
        meeting._Member.take = lambda *_: None
    if rank == 0 and seed % 3 == 2:
        meeting._Leader.listen = lambda *_: None
    assert form(rank, streams) is None
    assert len(os.listdir("/proc/self/fd")) == before


SCENARIOS = {f.__name__: f for f in (mixed, killed, finished, interrupted, slow, refused)}


def start(scenario: str, rank: int, streams: list[list[socket.socket]], seed: int) -> int:
    process = os.fork()
    if process:
        return process
    try:
        for row in streams[:rank] + streams[rank + 1 :]:
            for stream in row:
                stream.close()
        SCENARIOS[scenario](rank, streams[rank], seed)
    except BaseException:
        print(f"rank {rank}, seed {seed}:", file=sys.stderr)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main(scenario: str, size: int, seed: int) -> int:
    pairs = {(a, b): socket.socketpair() for a in range(size) for b in range(a + 1)}
    streams = [[pairs[max(a, b), min(a, b)][a < b] for b in range(size)] for a in range(size)]
    processes = [start(scenario, rank, streams, seed) for rank in range(size)]
    for row in streams:  # so that the end of a rank is the end of its streams
        for stream in row:
            stream.close()
    statuses = [os.waitpid(process, 0)[1] for process in processes]
    expected = 1 if scenario == "killed" else 0
    return 0 if statuses.count(0) == size - expected else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
