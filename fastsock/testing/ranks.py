"""Ranks of one job for tests of message passing devices: processes, or for smpdev threads of one process.

Every check of a device takes a `RankMaker`. Most checks are functions of a device that every rank runs (`on_ranks`).
Checks that end ranks use `RankMaker.ranks` and command each rank by itself.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from .process import DEADLINE, FarProcess, Pending

RankCheck = Callable[["RankMaker"], None]


@dataclass(frozen=True)
class RankMaker:
    """Starts ranks on a device.

    device: its name, or "module:Class".
    environment: variables that the ranks find.
    threads: whether ranks are threads, which cannot be killed one by one.
    enter: called first in each rank's process, with the rank's number, to enter a namespace for example. It is called
        with -1 in the process of the job's server. The ranks reach that server at `server`.
    """

    device: str = "iodev"
    environment: tuple[tuple[str, str], ...] = ()
    enter: Callable[[int], None] | None = field(default=None, compare=False)
    server: str = "127.0.0.1"

    @property
    def threads(self) -> bool:
        """Whether its ranks are threads of one process."""
        return self.device == "smpdev"

    def __str__(self) -> str:
        return self.device

    def run(self, size: int, body: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Runs `body(device, ...)` on each of `size` ranks. Returns the values, by rank."""
        if self.threads:
            with FarProcess(maker=self, body=body, arguments=arguments) as process:
                found: list[Any] = process.run(_run_threads, size)
                return found
        with self.ranks(size, body=body, arguments=arguments) as ranks:
            return ranks.all(_run_body)

    @contextmanager
    def ranks(self, size: int, **inherited: Any) -> Iterator[Ranks]:
        """Ranks that are processes and obey commands. Their devices are initialised."""
        with ExitStack() as stack:
            job = _Job(size)
            server = stack.enter_context(FarProcess(maker=self, job=job))
            job.addresses = server.run(_serve_job)
            found = Ranks(job)
            for rank in range(size):
                process = FarProcess(maker=self, job=job, rank=rank, **inherited)
                stack.push(process)
                found.processes.append(process)
            found.all(_start)
            yield found


class Ranks:
    """The processes of one job, by rank."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.processes: list[FarProcess] = []

    def begin(self, rank: int, function: Callable[..., Any], *arguments: Any) -> Pending:
        """Starts `function(here, ...)` on a rank; `here.device` is its device."""
        return self.processes[rank].begin(function, *arguments)

    def run(self, rank: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same, and its value."""
        return self.processes[rank].run(function, *arguments)

    def all(self, function: Callable[..., Any], *arguments: Any, timeout: float = DEADLINE) -> list[Any]:
        """Runs it on all ranks at once and returns their values, by rank.

        Of several errors it raises that of the lowest rank, but an AssertionError before any other.
        """
        pending = [process.begin(function, *arguments) for process in self.processes]
        values: list[Any] = []
        errors: list[Exception] = []
        for each in pending:
            try:
                values.append(each.result(timeout))
            except Exception as error:
                errors.append(error)
        # A rank that failed makes the ranks that wait for it fail too. Its own assertion says more.
        errors.sort(key=lambda error: not isinstance(error, AssertionError))
        if errors:
            raise errors[0]
        return values


class _Job:
    def __init__(self, size: int) -> None:
        self.size = size
        self.name = f"test-{os.getpid()}-{os.urandom(4).hex()}"
        self.secret = os.urandom(32)
        self.addresses: list[str] = []


def _serve_job(here: SimpleNamespace) -> list[str]:
    """Serves the wire-up of the job from a thread of this process; its addresses."""
    from ..xxdev.job import addresses
    from ..xxdev.job.loop import Loop
    from ..xxdev.job.server import Server

    if here.maker.enter is not None:
        here.maker.enter(-1)
    loop = Loop()
    server = Server(loop, size=here.job.size, job=here.job.name, secret=here.job.secret)
    server.listen(addresses.listen_unix(here.job.name), addresses.unix(here.job.name))
    listener = addresses.listen_tcp()
    server.listen(listener, addresses.tcp(here.maker.server, listener.getsockname()[1]))

    def serve() -> None:
        while True:
            loop.step()

    threading.Thread(target=serve, daemon=True).start()
    return server.addresses


def _prepare(here: SimpleNamespace) -> None:
    os.environ.update(here.maker.environment)
    from .. import config
    from ..meeting import history
    from ..xxdev import settings

    config.reload()
    settings.reload()
    history.forget()
    fast = sys.modules.get("fastsock.socket")
    if fast is not None:  # which the process that forked this one has imported, with other settings
        setattr(fast, "socket", fast.chosen().socket)  # noqa: B010


def _start(here: SimpleNamespace) -> None:
    """The rank joins the job, and its device starts."""
    if here.maker.enter is not None:
        here.maker.enter(here.rank)
    _prepare(here)
    from ..xxdev.device import Device
    from ..xxdev.job.client import WiredJob

    job = here.job
    made = WiredJob(here.rank, job.size, job.name, job.secret, job.addresses, launcher="test")
    here.device = Device.new_instance(here.maker.device)
    here.device.init(made)


def _run_body(here: SimpleNamespace) -> Any:
    try:
        value = here.body(here.device, *here.arguments)
    except BaseException:
        here.device.job.close()  # as a death: nobody need wait for this rank
        raise
    finish(here)
    return value


def finish(here: SimpleNamespace) -> None:
    """A rank's orderly end."""
    here.device.finish()
    here.device.job.finish()


def _run_threads(here: SimpleNamespace, size: int) -> list[Any]:
    _prepare(here)
    from ..xxdev import smpdev

    return smpdev.run(size, here.body, *here.arguments)


def on_ranks(size: int) -> Callable[[Callable[[Any], Any]], RankCheck]:
    """A check out of a function that each of `size` ranks runs with its device."""

    def decorate(body: Callable[[Any], Any]) -> RankCheck:
        @functools.wraps(body)
        def check(maker: RankMaker) -> None:
            maker.run(size, body)

        return check

    return decorate


def device_checks(concept: str | None = None) -> list[RankCheck]:
    """The checks of one concept of devices (a module of `fastsock.testing.device_checks`), or all."""
    import pkgutil

    from . import device_checks as package

    names = [concept] if concept else sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found: list[RankCheck] = []
    for each in names:
        module = importlib.import_module(f"{package.__name__}.{each}")
        found += [value for key, value in vars(module).items() if key.startswith("check_")]
    return found
