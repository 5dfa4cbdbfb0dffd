"""Measuring by turns: every peer once, then every peer again, with the placement probed between any two."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import machine
from .placement import Placement
from .process import Broken, Unusable

BUSY = 0.15  # share of the machine that others may use before a turn is called disturbed


@dataclass(frozen=True)
class Sample:
    """One measured value and what surrounded it."""

    what: str  # "ping-pong", "stream", ...
    peer: str
    size: int  # bytes a message
    value: float  # microseconds a round trip, gigabytes a second, ...; the bench says which
    turn: int  # samples of one turn stand beside each other and may be divided
    placement: str
    before: float | None  # the probe, microseconds
    after: float | None
    disturbed: bool  # others kept the machine busy just before this turn


class Skipped(dict[str, str]):
    """Peers that could not be measured, with the reason; each is told once."""

    def add(self, peer: str, reason: str) -> None:
        if peer not in self:
            self[peer] = reason
            print(f"  skipped: {peer}: {reason}", file=sys.stderr, flush=True)


class Turns:
    """Takes samples turn by turn and collects them."""

    def __init__(self, placement: Placement, skipped: Skipped, *, quiet: bool = True) -> None:
        self.placement, self.skipped = placement, skipped
        self.quiet = quiet  # begin a turn when others leave the machine alone, or soon after
        self.samples: list[Sample] = []
        self._turn = 0

    def take(
        self,
        what: str,
        size: int,
        runs: Iterable[tuple[str, Callable[[], float]]],
        *,
        keep: bool = True,
    ) -> None:
        """One turn: run each peer's measurement once. With ``keep`` false it only warms up."""
        self._turn += 1
        disturbed = self.quiet and machine.wait_until_idle(BUSY) > BUSY
        before = self.placement.probe()
        for peer, run in runs:
            if peer in self.skipped:
                continue
            try:
                value = run()
            except (Broken, Unusable) as error:
                self.skipped.add(peer, str(error))
                continue
            after = self.placement.probe()
            if keep:
                name = self.placement.name(before, after)
                self.samples.append(Sample(what, peer, size, value, self._turn, name, before, after, disturbed))
            before = after
