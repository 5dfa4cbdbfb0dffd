"""SIGKILL of either end in the middle of a schedule.

What the dead end handed over must reach the other one, or an error must tell that it did not; what arrives is the
beginning of what was sent; nobody hangs; who lives holds afterwards what it held before.
"""

from __future__ import annotations

import dataclasses
import random
import re
import signal
from typing import Any

from . import leaks
from .actors import Actors, Broken, Hung
from .playing import Playing
from .schedule import generate, taken_descriptor

STREAM = 3 << 20
ENDS = ("end", "ConnectionResetError ECONNRESET", "BrokenPipeError EPIPE")
NOT_HERE = ("fork", "tls", "plain again", "streams", "close", "finish", "shutdown")
_RECEIVED = re.compile(r"received (\d+), (.*)")


def generate_kill(seed: int) -> dict[str, Any]:
    """A schedule that ends in a death: whose, and while it does what. In every other one a descriptor is detached."""
    chooser = random.Random(-seed)
    schedule = generate(seed)
    steps = [step for step in schedule["steps"] if step["do"] not in NOT_HERE]
    steps = steps[: chooser.randint(0, len(steps))]
    if seed % 2:
        steps.insert(chooser.randint(0, len(steps)), taken_descriptor(chooser))
    return {
        **schedule,
        "threads": False,
        "steps": steps,
        "victim": chooser.randrange(2),
        "while": chooser.choice(("idle", "idle", "sends", "receives", "is sent to")),
        "moment": chooser.randrange(30_000),
    }


class Killer:
    """Plays such schedules; whoever is not killed goes on to the next one."""

    def __init__(self) -> None:
        self._actors: Actors | None = None
        self._before: dict[int, leaks.Holding] = {}
        self._lives: dict[int, int] = {}

    def play(self, schedule: dict[str, Any]) -> dict[str, Any]:
        actors = self._actors = self._actors or Actors(False)
        playing = Playing(actors, schedule, None)
        problem, said, number = None, "", signal.SIGKILL
        try:
            playing.play()
            said = self._kill(actors, playing, schedule)
            problem = self._judge(actors, playing, schedule["victim"], said)
            survivor = actors.both[1 - schedule["victim"]]
            survivor.do("over")
            actors.replace(schedule["victim"])
            problem = problem or self._leaked(survivor)
        except (Hung, Broken) as error:
            problem, number = f"{type(error).__name__}: {error}", signal.SIGABRT
        if problem is not None:
            actors.kill(number)
            self._actors = None
            self._before.clear()
        told = {"paths": playing.paths, "gained": playing.gained, "trace": playing.trace}
        return {"problem": problem, "said": said, **told}

    def _kill(self, actors: Actors, playing: Playing, schedule: dict[str, Any]) -> str:
        victim = schedule["victim"]
        dying, living = actors.both[victim], actors.both[1 - victim]
        playing.note_whether_gained()
        doing = schedule["while"] if not (playing.strained or any(out.filled for out in playing.out)) else "idle"
        out, come = playing.out[victim], playing.out[1 - victim]
        rest = "receive_to_end", "poll", out.received
        for end in (dying, living):
            end.do("timeout", None)
        if doing == "sends":
            living.begin(*rest)
            dying.begin("send", "send", "send", "poll", STREAM, out.sent)
        elif doing == "receives":
            dying.begin("receive", "recv", "recv", "poll", STREAM, 1 << 16, come.received)
        elif doing == "is sent to":
            dying.begin("receive", "recv", "recv", "poll", STREAM, 1 << 16, come.received)
            living.begin("send", "send", "send", "poll", 2 * STREAM, come.sent)
        for _ in range(schedule["moment"] if doing != "idle" else 0):
            pass
        actors.kill_one(victim)
        if doing == "is sent to":
            told = living.result()
            if not told.endswith((*ENDS[1:], f"sent {2 * STREAM}")):  # the last of it may lie in buffers
                return told
        if doing != "sends":
            living.begin(*rest)
        return str(living.result())

    @staticmethod
    def _judge(actors: Actors, playing: Playing, victim: int, said: str) -> str | None:
        found = _RECEIVED.fullmatch(said)
        if found is None or found[2] not in ENDS:
            return said
        got = playing.out[victim].received + int(found[1])
        sent = max(actors.sent(victim), playing.out[victim].sent)
        if found[2] == "end" and got < sent:
            return f"an orderly end after {got} of {sent} bytes"
        return None

    def _leaked(self, survivor: Any) -> str | None:
        pid = survivor.do("collect")
        lives = self._lives[pid] = self._lives.get(pid, 0) + 1
        if lives == 12:
            self._before[pid] = leaks.holding(pid)
        if lives < 24 or lives % 12 or pid not in self._before:
            return None
        now = leaks.settled(pid, self._before[pid], 5.0)
        for name, slack in leaks.SLACK.items():
            was = getattr(self._before[pid], name)
            if getattr(now, name) > was + slack:
                return f"{name} of who lived grew from {was} to {getattr(now, name)}: {dataclasses.asdict(now)}"
        return None

    def close(self) -> None:
        if self._actors is not None:
            self._actors.kill()
