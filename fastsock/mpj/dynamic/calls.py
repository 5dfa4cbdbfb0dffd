"""What communicators ask of this folder. The files that do it are imported when they are first needed."""

from __future__ import annotations

import os

from fastsock.xxdev.job import own

from ..communicators import dynamic_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..communicators.communicator_record import Communicator
    from ..communicators.world import World
    from .spawning import Program


class Calls:
    """All calls are collective on the communicator that they are given."""

    def started(self, world: World) -> None:
        """A rank has started: where it was spawned, it meets its parents now, who wait for it."""
        port = os.environ.get(own.PARENT)
        if port and world.job.launcher == "fastsock":
            from .ports import call

            world.parent = call(world.everyone, port, 0)

    def accept(self, communicator: Communicator, port_name: str, root: int) -> Communicator:
        """Returns the intercommunicator with the next group that connects to the root's port."""
        from .ports import accept

        return accept(communicator, port_name, root)

    def connect(self, communicator: Communicator, port_name: str, root: int) -> Communicator:
        """Returns the intercommunicator with the group that accepts at the port."""
        from .ports import call

        return call(communicator, port_name, root)

    def spawn(self, communicator: Communicator, programs: Sequence[Program], root: int) -> Communicator:
        """Returns the intercommunicator with the ranks of these programs, which start now."""
        from .spawning import spawn

        return spawn(communicator, programs, root)

    def program(self, *words: Any) -> Any:
        """Returns one that can be spawned: see spawning.Program."""
        from .spawning import Program

        return Program(*words)

    def join(self, world: World, descriptor: int) -> Communicator:
        """Returns the intercommunicator with the one process at the other end of a connected socket."""
        from .joining import join

        return join(world, descriptor)


dynamic_calls.calls = Calls()
