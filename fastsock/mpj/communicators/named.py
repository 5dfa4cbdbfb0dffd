"""What communicators, windows and files have alike: names, hints, and the group of their members."""

from __future__ import annotations

from ..constants import MAX_OBJECT_NAME
from ..handle import Handle
from ..info import Info
from .errhandler import Watched
from .group import Group, GroupRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class Named(Watched):
    """A handle of something that has a name; its record has it as `name`."""

    __slots__ = ()

    _null_name: ClassVar[str]

    def Get_name(self) -> str:
        """Return the name."""
        if self.ob is self.null:
            return self._null_name
        name: str = self.ob.name
        return name

    def Set_name(self, name: str) -> None:
        """Set the name; what is longer than MAX_OBJECT_NAME - 1 characters is cut."""
        self._record().name = name[: MAX_OBJECT_NAME - 1]

    @property
    def name(self) -> str:
        """The name."""
        return self.Get_name()

    @name.setter
    def name(self, value: str) -> None:
        self.Set_name(value)


class Hinted(Handle):
    """A handle of something that has hints; its record has them as `info`: a dictionary, or None."""

    __slots__ = ()

    def Set_info(self, info: Info) -> None:
        """Set the hints. No hint changes what calls do."""
        self.ob.info = hints(info)

    def Get_info(self) -> Info:
        """Return a copy of the hints."""
        return Info.Create(self.ob.info)

    @property
    def info(self) -> Info:
        """The hints."""
        return self.Get_info()

    @info.setter
    def info(self, value: Info) -> None:
        self.Set_info(value)


class Grouped(Handle):
    """A handle of something that belongs to the members of a communicator, which its record has."""

    __slots__ = ()

    ob: Any

    def Get_group(self) -> Group:
        """Return the group of the members."""
        communicator = self.ob.communicator
        return Group.of(GroupRecord(communicator.ranks, communicator.world.rank))

    @property
    def group(self) -> Group:
        """The group of the members."""
        return self.Get_group()

    @property
    def group_size(self) -> int:
        """Number of members."""
        size: int = self.ob.communicator.size
        return size

    @property
    def group_rank(self) -> int:
        """Rank of this process."""
        rank: int = self.ob.communicator.rank
        return rank


def hints(info: Info) -> dict[str, str] | None:
    """Returns the hints of an info object; None where there are none."""
    return dict(info.items()) if info else None
