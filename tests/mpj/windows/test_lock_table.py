"""The lock of a window by messages: in which order those who wait have it."""

from __future__ import annotations

import random

from fastsock.mpj.windows.lock_table import LockTable


class _Members:
    """Those who ask for the lock of one member. `have`: who has it, and whether alone."""

    def __init__(self):
        self.table = LockTable()
        self.have = {}
        self.waiting = []

    def ask(self, rank, alone):
        def grant(error):
            assert error is None
            assert not self.have or not (alone or any(self.have.values()))
            # nobody who came later is before it, and nobody who came earlier waits still
            assert self.waiting.pop(0) == rank
            self.have[rank] = alone

        self.waiting.append(rank)
        self.table.take(rank, alone, grant)

    def give_back(self, rank):
        del self.have[rank]
        self.table.give_back(rank)


def test_whoever_came_first_has_the_lock_first():
    chosen = random.Random(7)
    members = _Members()
    for _ in range(5000):
        idle = [rank for rank in range(8) if rank not in members.have and rank not in members.waiting]
        if idle and chosen.random() < 0.6:
            members.ask(chosen.choice(idle), chosen.random() < 0.4)
        elif members.have:
            members.give_back(chosen.choice(list(members.have)))
        assert members.have or not members.waiting


def test_readers_that_come_later_do_not_pass_a_writer_that_waits():
    members = _Members()
    members.ask(0, False)
    members.ask(1, True)
    for reader in range(2, 6):
        members.ask(reader, False)
    assert members.have == {0: False}
    members.give_back(0)
    assert members.have == {1: True}
    members.give_back(1)
    assert members.have == dict.fromkeys(range(2, 6), False)
