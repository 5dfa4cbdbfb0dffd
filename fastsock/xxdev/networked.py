"""What devices whose ranks are processes have in common: the job, the engine, and connections on first use."""

from __future__ import annotations

import abc
import os

from ..config import in_force
from ..core.binding._engine import Engine
from . import settings
from .connections import Connections
from .device import Device
from .errors import Code, XxdevError, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NetworkedDevice(Device):
    """A device that connects to a rank when it is first needed."""

    connections: Connections | None = None
    settings: settings.Settings

    @abc.abstractmethod
    def connect_with(self) -> Connections:
        """The connections of this device, not started yet."""

    def init(self, args: Any = None) -> list[int]:
        """Joins the job. Returns the ids of all its ranks. `args`: a Job other than the environment's."""
        if self.engine is not None:
            raise failed(Code.ARGUMENT, f"{self.name}: init() was called before")
        if args is None:
            from . import job

            args = job.current()
        self.job, self.settings = args, settings.current()
        engine = new_engine(args, self.settings)
        self.engine = engine
        try:
            self.connections = self.connect_with()
            engine.on_missing = self.connections.want
            args.on_failure(engine.fail)
            self.connections.start()
        except BaseException as error:
            self.finish()
            if isinstance(error, OSError) and not isinstance(error, XxdevError):
                interface = os.environ.get("FASTSOCK_MPJ_INTERFACE")
                at = f" at FASTSOCK_MPJ_INTERFACE={interface}" if interface else ""
                raise failed(Code.UNREACHABLE, f"{self.name}: rank {args.rank} cannot listen{at}: {error}") from error
            raise
        self._finish_at_exit()
        return list(range(args.size))

    def finish(self) -> None:
        """Ends this rank's part. Its messages are delivered first. May be called twice."""
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close(timeout=-1)  # a peer that dies ends it
        if self.connections is not None:
            self.connections.close()
            self.connections = None
        self._close_outside()


def new_engine(job: Any, limits: settings.Settings) -> Any:
    """The engine of one rank of a job. `fastsock top` sees what it counts."""
    engine = Engine(
        job.rank,
        job.size,
        eager_limit=limits.eager_limit,
        credit=limits.credit,
        spin_us=limits.spin_us,
        crowded=job.crowded,
    )
    if in_force.settings().shown:
        engine.show()
    return engine
