"""How a team comes to be: every member is asked at once, so that one that answers late delays nobody else."""

from __future__ import annotations

import socket
import threading

from fastsock.core.binding._engine import Engine

from fastsock.mpj.collectives import team

SIZE = 5
PATIENCE = 60.0


def _attach(engines: list[Engine], one: int, other: int) -> None:
    ends = socket.socketpair()
    engines[one].attach_descriptor(other, ends[0].detach())
    engines[other].attach_descriptor(one, ends[1].detach())


def test_the_leader_wants_every_member_before_it_waits_for_any() -> None:
    """The members' connections are made when the leader has wanted the last one: none may have to stand before."""
    engines = [Engine(rank, SIZE) for rank in range(SIZE)]
    wanted: list[int] = []

    def want(peer: int) -> None:
        wanted.append(peer)
        if len(wanted) == SIZE - 1:
            for member in wanted:
                _attach(engines, 0, member)

    engines[0].on_missing = want
    formed: dict[int, bool] = {}

    def form(index: int) -> None:
        made = team.form(engines[index], 7, range(SIZE), index, crowded=True)
        formed[index] = made is not None
        if made is not None:
            made.close()

    threads = [threading.Thread(target=form, args=(index,), daemon=True) for index in range(SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert formed == dict.fromkeys(range(SIZE), True)
    assert sorted(wanted) == [1, 2, 3, 4]
    for engine in engines:
        engine.close()
