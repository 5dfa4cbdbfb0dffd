"""Kills of one server, while clients check what it says."""

from __future__ import annotations

import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .sanitizing import Sanitizer
from .servers import SERVERS, Server
from .shared import SIZE, Shared

CLIENT = Path(__file__).with_name("client.py")
# How each client works, whether its Python has the class too, and its connections. The last ones are killed themselves.
CLIENTS = (
    ("calls", False, 3), ("polls", False, 2), ("loop", False, 4), ("polls", True, 2), ("turns", True, 2),
    ("looped turns", True, 3), ("loop", False, 2),
)  # fmt: skip
MORTAL = 2
SILENCE = 60.0


@dataclass
class Outcome:
    kills: int = 0
    clients_killed: int = 0
    stops: int = 0
    reloads: int = 0
    answers: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    gained: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        for name in ("kills", "clients_killed", "stops", "reloads", "answers", "gained"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for how, count in other.ends.items():
            self.ends[how] = self.ends.get(how, 0) + count
        self.problems += other.problems


def given(**settings: str) -> dict[str, str]:
    """The environment of what `fastsock run` starts."""
    variables = {**os.environ, **{f"FASTSOCK_{name}": value for name, value in settings.items()}}
    words = [sys.executable, "-m", "fastsock", "run", "env", "-0"]
    told = subprocess.run(words, capture_output=True, check=True, env=variables).stdout
    return dict(entry.split("=", 1) for entry in told.decode().split("\0") if entry)


class Clients:
    def __init__(self, name: str, port: int, folder: Path, environment: dict[str, str]) -> None:
        self.name, self.port, self.folder = name, port, folder
        self.environment = {**environment, "FASTSOCK_STATS": str(folder / "report")}
        (folder / "shared").write_bytes(bytes(SIZE))
        os.chmod(folder / "shared", 0o666)
        self.shared = Shared(str(folder / "shared"))
        self.running: list[subprocess.Popen[str]] = []

    def start(self, seed: int) -> None:
        self.running = [self._client(at, seed) for at in range(len(CLIENTS))]

    def _client(self, at: int, seed: int) -> subprocess.Popen[str]:
        way, classes, connections = CLIENTS[at]
        python = [sys.executable] if classes else [sys.executable, "-I"]
        words = [self.name, way, str(self.port), str(self.folder / "shared"), str(at), str(connections), str(seed)]
        return subprocess.Popen(
            [*python, str(CLIENT), *words], stdout=subprocess.PIPE, text=True, env=self.environment, cwd=self.folder
        )

    def replace(self, seed: int) -> None:
        """Kills one of the last ones. Its numbers begin anew, and so it says who it is by another name."""
        at = len(CLIENTS) - 1 - seed % MORTAL
        self.running[at].kill()
        self.running[at].communicate()
        self.running[at] = self._client(at, seed)

    def end(self, outcome: Outcome) -> None:
        self.shared.stop()
        for at, each in enumerate(self.running):
            try:
                told = each.communicate(timeout=SILENCE)[0]
                said = json.loads(told)
                outcome.problems += said["problems"]
                for how, count in said["ends"].items():
                    outcome.ends[how] = outcome.ends.get(how, 0) + count
            except (subprocess.TimeoutExpired, ValueError) as error:
                outcome.problems.append(f"client {at} ({CLIENTS[at]}, process {each.pid}): {error!r}, {each.poll()}")
        outcome.answers += sum(self.shared.answers())
        if (self.folder / "report").exists():
            for line in (self.folder / "report").read_text().splitlines():
                outcome.gained += json.loads(line).get("totals", {}).get("shm", 0)

    def kill(self) -> None:
        for each in self.running:
            if each.poll() is None:
                each.kill()
            each.wait()


class Progress:
    """Each connection has to get answers."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._seen = shared.answers()
        self._moved = [time.monotonic()] * len(self._seen)

    def check(self) -> int:
        now, answers = time.monotonic(), self._shared.answers()
        for at, (before, count) in enumerate(zip(self._seen, answers, strict=True)):
            if before != count:
                self._moved[at] = now
            elif count and now - self._moved[at] > SILENCE:
                client, connection = divmod(at, 4)
                raise AssertionError(f"connection {client}.{connection} has had no answer for {SILENCE:.0f} s")
        self._seen = answers
        return sum(answers)


@contextmanager
def served(name: str, environment: dict[str, str]) -> Iterator[tuple[Server, Path]]:
    user = pwd.getpwnam("nobody").pw_uid if name == "postgres" and os.geteuid() == 0 else None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="fastsock-") as folder:
        os.chmod(folder, 0o755)
        if user is not None:
            os.chown(folder, user, -1)
        server = SERVERS[name](Path(folder), port, environment, user)
        try:
            server.start()
            yield server, Path(folder)
        finally:
            server.stop()


def campaign(name: str, kills: int, seed: int, after: str, sanitizer: Sanitizer | None = None) -> Outcome:
    """So many kills, with one setting of how early connections gain memory."""
    chooser = random.Random(seed)
    outcome = Outcome()
    environment = given(UPGRADE_AFTER=after, PEERS="any")  # PostgreSQL refuses to be root
    if sanitizer is not None:
        environment = sanitizer.cover(environment)
    with served(name, environment) as (server, folder):
        clients = Clients(name, server.port, folder, environment)
        try:
            clients.start(seed)
            _deaths(server, clients, kills, chooser, outcome)
        except AssertionError as error:
            outcome.problems.append(f"{error}")
            _look(clients, server)
        finally:
            clients.end(outcome)
            clients.kill()
        if outcome.problems:
            outcome.problems.append(f"seed {seed}, after {after}, {name}")
            kept = Path(tempfile.mkdtemp(prefix="fastsock-kept-"))
            shutil.copy(folder / "log", kept)
            outcome.problems.append(f"the server's log is in {kept}")
    return outcome


def _deaths(server: Server, clients: Clients, kills: int, chooser: random.Random, outcome: Outcome) -> None:
    shared = clients.shared
    progress = Progress(shared)
    until_now = 0
    while outcome.kills < kills and not shared.stopped:
        wanted = until_now + chooser.choice((1, 30, 100, 300, 1000))
        while (until_now := progress.check()) < wanted and not shared.stopped:
            time.sleep(0.001)  # until they have got so many answers
        does, victims = chooser.randrange(40), server.victims()
        if not victims:
            continue
        victim = chooser.choice(victims)
        if does < 2:
            outcome.reloads += server.reload(shared)
        elif does < 4:
            with suppress(ProcessLookupError):  # a backend may have ended meanwhile
                os.kill(victim, signal.SIGSTOP)
                time.sleep(chooser.choice((0.001, 0.02, 0.1)))
                os.kill(victim, signal.SIGCONT)
                outcome.stops += 1
        elif does == 4:
            outcome.clients_killed += 1
            clients.replace(chooser.randrange(1 << 30))
        else:
            shared.begin(victim)
            with suppress(ProcessLookupError):
                if does == 5:
                    os.kill(victim, signal.SIGSTOP)
                    time.sleep(chooser.choice((0.001, 0.02)))
                server.kill(victim)
                outcome.kills += 1
            shared.done()


def _look(clients: Clients, server: Server) -> None:
    """Where everybody is who is there, for whoever reads it later."""
    for pid in [each.pid for each in clients.running] + server.victims():
        words = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"]
        try:
            told = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        with open(Path(tempfile.gettempdir()) / f"fastsock-hang.{pid}", "w") as file:
            file.write(told)
