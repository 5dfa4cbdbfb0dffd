"""Plays schedules on two ends, and keeps the account: what each sent, what of it was received, what was shut."""

from __future__ import annotations

import dataclasses
import re
import signal
from typing import Any

from . import leaks
from .actors import Actors, Broken, Hung
from .schedule import Step

SMALL = 100_000  # bytes in flight that surely fit into any buffer


class Account:
    """One direction."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        self.shut = self.filled = self.deaf = False

    @property
    def in_flight(self) -> int:
        return self.sent - self.received


class Playing:
    """One schedule on one pair of ends. `trace` has the outcomes, `expected` those that plain TCP gave."""

    def __init__(self, actors: Actors, schedule: dict[str, Any], expected: list[Any] | None) -> None:
        self.actors, self.both, self.schedule = actors, actors.both, schedule
        self.expected = expected
        self.trace: list[Any] = []
        self.out = Account(), Account()  # by who sends
        self.closed = [False, False]
        self.strained = False  # an error was seen, or a reset is due: from here on only ends are of interest
        self.encrypted = False
        self.timeouts: list[Any] = [None, None]
        self.watched = [False, False]
        self.forked = [False, False]
        self.paths: list[str] = []
        self.gained = False

    def play(self) -> list[Any]:
        connects = self.schedule["connects"]
        early, address = self.schedule["early"], self.actors.addresses[1 - connects]
        if early is None:
            self.both[1 - connects].begin("accept")
            self.note("connect", self.both[connects].do("connect", address))
        else:
            self.note("connect", self.both[connects].do("connect_early", address, early))
            self.out[connects].sent = early
            self.both[1 - connects].begin("accept")
        self.note("accept", self.both[1 - connects].result())
        self.paths = self._paths_now()
        if early is None and self.schedule["calls"]:
            self._begin_with_calls(self.schedule["calls"])
        for number, step in enumerate(self.schedule["steps"]):
            self.number = number
            getattr(self, "_" + step["do"].replace(" ", "_"))(step, step["end"])
        return self.trace

    def _begin_with_calls(self, count: int) -> None:
        for end in (0, 1):
            self.both[end].begin("ping", count, end == self.schedule["connects"])
        self.note("calls", [actor.result() for actor in self.both])
        for out in self.out:
            out.sent = out.received = count

    def _paths_now(self) -> list[str]:
        return [self.paths[end] if self.closed[end] else self.both[end].do("path") for end in (0, 1)]

    def note_whether_gained(self) -> None:
        """Whether memory carries the bytes by now, though TCP did at first."""
        self.gained = self.gained or ("tcp", "shm") in zip(self.paths, self._paths_now(), strict=True)

    def note(self, what: str, told: Any) -> None:
        self.trace.append([what, told])

    def _hint(self) -> str | None:
        """What plain TCP gave for the next entry of the trace."""
        if self.expected is None or len(self.trace) >= len(self.expected):
            return None
        return str(self.expected[len(self.trace)][1])

    # Which steps fit

    def _can_send(self, end: int, size: int = 0) -> bool:
        out = self.out[end]
        return (
            not any(self.closed) and not out.shut and not out.filled and not out.deaf
            and not self.strained and out.in_flight + size <= SMALL
        )  # fmt: skip

    def _sending(self, step: Step, end: int, count: int) -> tuple[Any, ...]:
        return step["send"], step["tls"][0], step["wait"], count, self.out[end].sent

    def _receiving(self, step: Step, end: int, count: int) -> tuple[Any, ...]:
        # one call for each byte of much takes long and shows nothing more
        dear = step["receive"] in ("child", "loop", "thread", "fdopen", "fromfd", "dup", "makefile")
        chunk = max(step["chunk"], count // (6 if dear else 200))
        return step["receive"], step["tls"][1], step["wait"], count, chunk, self.out[1 - end].received

    def _note_transfer(self, what: str, told: str) -> None:
        if "," in told:
            self.strained = True
        self.note(what, told)

    # Steps

    def _send(self, step: Step, end: int) -> None:
        size = step["size"]
        if self._can_send(end, size):
            told = self.both[end].do("send", *self._sending(step, end, size))
            self.out[end].sent += size
            self._note_transfer(f"{end} send", told)

    def _receive(self, step: Step, end: int) -> None:
        come = self.out[1 - end]
        if self.closed[end] or come.deaf or not come.in_flight or self.strained:
            return
        if come.filled and self.closed[1 - end]:
            return  # how much a reset drops depends on where it lay
        size = come.in_flight if come.filled else min(step["size"], come.in_flight)
        told = self.both[end].do("receive", *self._receiving(step, end, size))
        come.received += size
        come.filled = False
        self._note_transfer(f"{end} receive", "filled" if told == f"received {size}" else told)

    def _blocked(self, step: Step, end: int) -> None:
        """The receiver waits already when the sender begins."""
        size = step["size"]
        come = self.out[1 - end]
        if not self._can_send(1 - end, size) or self.closed[end] or come.in_flight:
            return
        self.both[end].begin("receive", *self._receiving(step, end, size))
        self.both[1 - end].begin("send", *self._sending(step, 1 - end, size))
        self._collect(end, size, 0)

    def _collect(self, end: int, size: int, back: int) -> None:
        told = [actor.result() for actor in self.both]
        self.out[1 - end].sent += size
        self.out[1 - end].received += size
        self.out[end].sent += back
        self.out[end].received += back
        for each in (0, 1):
            self.note(f"{each} moves", told[each])
            words = told[each].replace(f"sent {size}, received {back}", "").replace(f"sent {back}, received {size}", "")
            self.strained = self.strained or "," in words

    def _transfer(self, step: Step, end: int) -> None:
        come = self.out[1 - end]
        if not self._can_send(1 - end) or self.closed[end] or come.in_flight:
            return
        self.both[1 - end].begin("send", *self._sending(step, 1 - end, step["size"]))
        self.both[end].begin("receive", *self._receiving(step, end, step["size"]))
        self._collect(end, step["size"], 0)

    def _exchange(self, step: Step, end: int) -> None:
        """Both send and receive at the same time."""
        if self.encrypted or any(not self._can_send(each) or self.out[each].in_flight for each in (0, 1)):
            return
        size, back = step["size"], step["back"]
        other = 1 - end
        # two threads use one socket: what changes its timeout, or forks, is for one alone
        calm = {**step}
        for key, plain in (("send", "send"), ("receive", "recv")):
            if calm[key] in ("loop", "child", "thread", "makefile", "fromfd", "fdopen", "sendfile"):
                calm[key] = plain
        self.both[end].begin("exchange", self._sending(calm, end, back), self._receiving(calm, end, size))
        self.both[other].begin("exchange", self._sending(calm, other, size), self._receiving(calm, other, back))
        self._collect(end, size, back)

    def _fill(self, step: Step, end: int) -> None:
        out = self.out[end]
        if self.encrypted or not self._can_send(end) or out.in_flight:
            return
        count, said = self.both[end].do("fill", out.sent)
        out.sent += count
        out.filled = True
        self.note(f"{end} fill", said)

    def _probe(self, step: Step, end: int) -> None:
        what = step["what"]
        if self.closed[end] or any(out.filled for out in self.out):
            return
        quiet = what in ("empty", "expire", "peek")
        if (quiet and self.out[1 - end].in_flight) or (self.encrypted and what not in ("names", "error")):
            return
        if what == "refused" and (any(self.closed) or any(out.shut for out in self.out)):
            return  # a socket that was reset may be bound anew
        if what == "refused" and self.schedule["early"] is not None:
            return  # the first one more says nothing on TCP, also by another object
        if what == "refused" and self.timeouts[end]:
            return  # accept() would wait for something to read first
        if what in ("send nothing", "arguments") and (self.out[end].shut or self.timeouts[end] == 0 or self.strained):
            return
        told = self.both[end].do("probe", what, self._hint())
        self.note(f"{end} probe {what}", told)
        if quiet and "Reset" in told:
            self.strained = True

    def _watch(self, step: Step, end: int) -> None:
        if not self.closed[end] and not self.encrypted:
            self.note(f"{end} watch", self.both[end].do("watch", step["edge"]))
            self.watched[end] = True

    def _seen(self, step: Step, end: int) -> None:
        if self.watched[end] and not self.closed[end] and not any(out.filled for out in self.out):
            self.note(f"{end} seen", self.both[end].do("seen", self._hint()))

    def _timeout(self, step: Step, end: int) -> None:
        if not self.closed[end]:
            self.timeouts[end] = step["value"]
            self.note(f"{end} timeout", self.both[end].do("timeout", step["value"]))

    def _rewrap(self, step: Step, end: int) -> None:
        # multiprocessing's thread that hands out sockets is the parent's: a child by os.fork() asks it in vain
        orphan = step["way"] == "pickled" and self.forked[end]
        if not self.closed[end] and not self.encrypted and not orphan:
            self.watched[end] = False
            self.note(f"{end} rewrap", self.both[end].do("rewrap", step["way"]))

    def _shutdown(self, step: Step, end: int) -> None:
        how = step["how"]
        if self.closed[end] or self.encrypted or any(out.filled for out in self.out):
            return
        self.note(f"{end} shutdown", self.both[end].do("shutdown", how))
        if how != 0:
            self.out[end].shut = True
        if how != 1:
            self.out[1 - end].deaf = True

    def _close(self, step: Step, end: int) -> None:
        if not self.closed[end]:
            self.note_whether_gained()
            self.note(f"{end} close", self.both[end].do("close", step["how"]))
            self.closed[end] = True
            self.watched[end] = False

    def _tls(self, step: Step, end: int) -> None:
        if self.encrypted or any(not self._can_send(each) or self.out[each].in_flight for each in (0, 1)):
            return
        self.both[end].begin("wrap", True)
        self.both[1 - end].begin("wrap", False)
        self.watched = [False, False]
        self.note("tls", [actor.result() for actor in self.both])
        self.encrypted = True

    def _plain_again(self, step: Step, end: int) -> None:
        if not self.encrypted or any(not self._can_send(each) or self.out[each].in_flight for each in (0, 1)):
            return
        for actor in self.both:
            actor.begin("unwrap")
        self.note("plain again", [actor.result() for actor in self.both])
        self.encrypted = False

    def _fork(self, step: Step, end: int) -> None:
        if not self.closed[end] and not self.actors.threads and not self.encrypted:
            self.note(f"{end} fork", self.both[end].do("fork"))
            self.forked[end] = True

    def _streams(self, step: Step, end: int) -> None:
        if self.encrypted or any(not self._can_send(each, step["sizes"][each]) for each in (0, 1)):
            return
        sizes, out = step["sizes"], self.out
        for each in (0, 1):
            come = out[1 - each]
            wanted = come.in_flight + sizes[1 - each]
            looping = step["both"] or each == end
            arguments = sizes[each], out[each].sent, wanted, come.received, step["eof"], looping
            self.both[each].begin("streams", *arguments)
        self.note("streams", [actor.result() for actor in self.both])
        self.closed = [True, True]

    def _finish(self, step: Step, end: int) -> None:
        """One end closes when it has read what is there; the other reads to the end and closes."""
        come = self.out[1 - end]
        self.note_whether_gained()
        if not self.closed[end]:
            if come.in_flight and not come.deaf and not self.strained:
                arguments = "recv", "recv", "poll", come.in_flight, 1 << 20, come.received
                told = self.both[end].do("receive", *arguments)
                if come.filled and self.closed[1 - end]:  # how much that is, and a reset drops, depends on where it lay
                    told = re.sub(r"received \d+ of \d+, Conn", "some, Conn", told)
                self.note(f"{end} last", "all" if told == f"received {come.in_flight}" else told)
                come.received = come.sent
            self.note(f"{end} close", self.both[end].do("close", step["how"][0]))
        other = 1 - end
        if not self.closed[other]:
            out = self.out[end]
            if not out.deaf:
                told = self.both[other].do("receive_to_end", "poll", out.received)
                # how much a reset drops depends on where it lay
                told = told.replace(f"received {out.in_flight},", "all," if told.endswith("end") else "some,")
                self.note(f"{other} rest", re.sub(r"received \d+, Conn", "some, Conn", told))
            self.note(f"{other} close", self.both[other].do("close", step["how"][1]))


class Player:
    """Plays one schedule after the other; keeps a pair of processes, and one of threads, as long as all is well."""

    def __init__(self) -> None:
        self._pairs: dict[bool, Actors] = {}

    def play(self, schedule: dict[str, Any], expected: list[Any] | None = None) -> dict[str, Any]:
        threads = schedule["threads"]
        if threads not in self._pairs:
            self._pairs[threads] = Actors(threads)
        playing = Playing(self._pairs[threads], schedule, expected)
        problem = None
        try:
            playing.play()
            for actor in playing.both:
                actor.begin("over")
            for actor in playing.both:
                actor.result()
        except (Hung, Broken) as error:
            problem = f"{type(error).__name__}: {error}"
            self._pairs.pop(threads).kill(signal.SIGABRT)
        return {
            "trace": playing.trace,
            "paths": playing.paths,
            "gained": playing.gained,
            "problem": problem,
        }

    def close(self) -> None:
        for pair in self._pairs.values():
            pair.kill()
        self._pairs.clear()

    def holding(self) -> dict[str, Any]:
        """What each process of the ends holds, by its number."""
        found = {}
        for pair in self._pairs.values():
            for actor in pair.both:
                actor.do("collect")
            for pid in pair.pids:
                found[str(pid)] = dataclasses.asdict(leaks.holding(pid))
        return found
