"""The runner: starts the ranks, serves their wire-up, and ends all of them when one has failed."""

from __future__ import annotations

import os

from ...xxdev.job.loop import Loop
from ...xxdev.job.server import Server
from .local import LocalRanks
from .output import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from ...xxdev.job.loop import Timer
    from .remote import RemoteRanks
else:
    import _signal as signal  # as in local.py

TIMED_OUT = 124  # as of timeout(1)
_NOTICED_SECONDS = 0.3  # between the end of a rank's connection and the end of its process
_KILL_SECONDS = 3.0  # between SIGTERM and SIGKILL
_OUTPUT_SECONDS = 1.0  # what ranks have left running may hold their output open: not for longer
_FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)  # for the ranks, as other launchers do
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, *_FORWARDED)


class Supervisor:
    """One job. `run()` gives the exit status, negative for a signal by which the runner should end itself."""

    def __init__(
        self, *, size: int, job: str, secret: bytes, grace: float | None, timeout: float | None, tag: bool
    ) -> None:
        """`grace`: seconds between a rank's failure and SIGTERM for the others; None: these go on. All hear of the
        failure at once."""
        self.size = size
        self.loop = Loop()
        self.server = Server(self.loop, size=size, job=job, secret=secret, keep_going=grace is None)
        self.server.on_lost = self._lost
        self.server.on_crash = self._crashed
        self.server.on_abort = self._aborted
        self.writer = Writer(tag, self.loop.after)
        # Through this process, so that no line is torn by another rank's.
        through = self.writer.write if tag or size > 1 else None
        self.local = LocalRanks(self.loop, self._exited_here, through)
        self._grace = grace
        self._timeout = timeout
        self._host = os.uname().nodename
        self._running: set[int] = set(range(size))
        self._statuses: dict[int, int] = {}
        self._first: int | None = None  # the rank that failed first
        self._uncaught = False  # and an exception is how: its status is 1, also where it was ended before its end
        self._status: int | None = None  # decided by something else than a rank's status
        self._ending: Timer | None = None
        self._wakeup = os.pipe2(os.O_CLOEXEC)
        self._remotes: dict[int, RemoteRanks] = {}  # by the number that `local` knows their ssh by

    def run(self, start: Callable[[], None]) -> int:
        """Call `start` to start the ranks, and wait for their end."""
        before = self._take_signals()
        try:
            start()
            if self._timeout is not None:
                self.loop.after(self._timeout, self._timed_out)
            self.local.reap()
            while self._running:
                self.loop.step()
            self._drain()
        except BaseException:
            self.signal(signal.SIGKILL)
            raise
        finally:
            self.server.close()
            self._give_signals_back(before)
        if self._status is not None:
            return self._status
        if self._first is not None:
            status = 1 if self._uncaught and self._statuses[self._first] < 0 else self._statuses[self._first]
            return 128 - status if status < 0 else status or 1
        return 0

    # ---- what happens to ranks ----

    def exited(self, rank: int, host: str, pid: int, status: int) -> None:
        """The process of a rank has ended, here or elsewhere; status as of os.waitstatus_to_exitcode."""
        self._running.discard(rank)
        self._statuses[rank] = status
        who = f"rank {rank} (host {host}, pid {pid})"
        if status < 0:
            self._failed(rank, f"{who} was killed by signal {-status} ({_signal_name(-status)})")
        elif status > 0:
            self._failed(rank, f"{who} exited with status {status}")
        elif rank in self.server.described and rank not in self.server.finished:
            self._failed(rank, f"{who} exited with status 0, but without finishing")

    def _exited_here(self, rank: int, pid: int, status: int) -> None:
        if rank in self._remotes:
            self._remotes[rank].ended(status)
        else:
            self.exited(rank, self._host, pid, status)

    def add_host(self, host: str) -> tuple[int, RemoteRanks]:
        """Another host to start ranks on, and the number by which its ssh goes."""
        from .remote import RemoteRanks

        remote = RemoteRanks(
            self.loop,
            self.local,
            host,
            on_exit=self.exited,
            on_output=self.writer.write,
            on_loss=self._lost_host,
        )
        number = -1 - len(self._remotes)
        self._remotes[number] = remote
        return number, remote

    def _lost_host(self, ranks: list[int], reason: str) -> None:
        for rank in ranks:
            self._running.discard(rank)
            self._statuses[rank] = 1
            self._failed(rank, f"{self.server.name_of(rank)}: {reason}")

    def _lost(self, rank: int) -> None:
        self.loop.after(_NOTICED_SECONDS, lambda: self._still_lost(rank))

    def _still_lost(self, rank: int) -> None:
        if rank in self._running:
            how = "closed its connection to the runner, or was cut off, without finishing"
            self._failed(rank, f"{self.server.name_of(rank)} {how}")
            if self._grace is None:  # for the others it is dead
                self.local.kill(rank)

    def _crashed(self, rank: int, reason: str) -> None:
        self._failed(rank, reason)
        self._uncaught = self._uncaught or self._first == rank

    def _aborted(self, rank: int, status: int, reason: str) -> None:
        if self._status is None and self._first is None:
            self._status = status & 0xFF or (1 if status else 0)
            self._say(f"{self.server.name_of(rank)} aborted the job{f': {reason}' if reason else ''}")
        self._end_now()

    def _failed(self, rank: int, reason: str) -> None:
        news = rank not in self.server.failed
        self.server.fail(rank, reason)
        others = len(self._running - self.server.failed.keys())
        if self._grace is None and news and self._status is None:
            self._first = rank if self._first is None else self._first
            self._say(f"{reason}{f'; {others} of {self.size} ranks go on' if others else ''}")
        if self._grace is None or self._first is not None or self._status is not None:
            return
        self._first = rank
        self._say(f"{reason}{'; ending the others' if others else ''}")
        if self._ending is None:
            self._ending = self.loop.after(self._grace, self._end_now)

    # ---- ending all ----

    def end(self, reason: str) -> None:
        """The job has no purpose any more."""
        if self._status is None and self._first is None:
            self._status = 1
            self._say(f"{reason}; ending all ranks")
        self._end_now()

    def _timed_out(self) -> None:
        if self._running and self._status is None:
            self._status = TIMED_OUT
            left = ", ".join(map(str, sorted(self._running)))
            self._say(f"the job did not end within {self._timeout:g} s; still running: rank {left}")
            self._end_now()

    def _end_now(self) -> None:
        """SIGTERM for all, SIGKILL a while later."""
        self.signal(signal.SIGTERM)
        self.loop.after(_KILL_SECONDS, lambda: self.signal(signal.SIGKILL))

    def signal(self, number: int) -> None:
        """To all ranks that still run, and to the processes that they started."""
        self.local.signal(number)
        for remote in self._remotes.values():
            remote.signal(number)

    def _interrupted(self, number: int) -> None:
        if self._status is not None and self._status < 0:  # asked a second time
            self.signal(signal.SIGKILL)
            return
        self._status = -number
        self._say(f"{_signal_name(number)}: ending all ranks")
        self._end_now()

    # ---- this process ----

    def _take_signals(self) -> dict[int, object]:
        read, write = self._wakeup
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self.loop.watch(read, self._signalled)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        ignored = [number for number in _SIGNALS if signal.getsignal(number) == signal.SIG_IGN]  # as under nohup
        return {
            number: signal.signal(number, lambda *_: None)
            for number in _SIGNALS
            if number not in ignored or number == signal.SIGCHLD
        }

    def _give_signals_back(self, before: dict[int, object]) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _signalled(self, _: int) -> None:
        for number in os.read(self._wakeup[0], 4096):
            if number == signal.SIGCHLD:
                self.local.reap()
            elif number in _FORWARDED:
                self.signal(number)
            else:
                self._interrupted(number)

    def _drain(self) -> None:
        over = False

        def stop() -> None:
            nonlocal over
            over = True

        self.loop.after(_OUTPUT_SECONDS, stop)
        while self.local.streams and not over:
            self.loop.step()
        self.writer.close()

    def _say(self, text: str) -> None:
        self.writer.say(f"fastsock.mpj.run: {text}")


def _signal_name(number: int) -> str:
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return "unknown"
