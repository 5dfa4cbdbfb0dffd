"""What ranks of several jobs know of each other, and how they prove to each other that they met."""

from __future__ import annotations

from ..system.proof import hmac_sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_ROLE_DIGITS = 12  # a role has 16 bytes at most


class Process:
    """A rank of some job, so that ranks of others can tell it from all others, and reach it."""

    __slots__ = ("address", "host", "host_name", "job", "pid", "rank")

    def __init__(self, job: str, rank: int, host: str, host_name: str, pid: int, address: Sequence[Any]) -> None:
        """`job`: its identity; `host`: the identity of its host; `address`: the IP and the port where it listens."""
        self.job, self.rank = str(job), int(rank)
        self.host, self.host_name, self.pid = str(host), str(host_name), int(pid)
        self.address = str(address[0]), int(address[1])

    @property
    def key(self) -> tuple[str, int]:
        """What tells it apart; all that know it put these in one order."""
        return self.job, self.rank

    def card(self) -> list[Any]:
        """What `Process(*card)` is made of, of numbers and texts."""
        return [self.job, self.rank, self.host, self.host_name, self.pid, list(self.address)]


def identity(job: Any) -> str:
    """What tells a job from all others, which may have the same name."""
    return hmac_sha256(job.secret, b"fastsock.xxdev.outside/1\0" + job.name.encode())[:16].hex()


class Bond:
    """Ranks of several jobs that share a secret. Each has a number in it: its place in the list."""

    def __init__(self, secret: bytes, keys: Sequence[tuple[str, int]]) -> None:
        self.secret = secret
        self.places = {key: place for place, key in enumerate(keys)}
        self.keys = list(keys)
        digest = hmac_sha256(secret, b"fastsock.xxdev.outside/1 role")
        self.role = f"bond{digest.hex()[:_ROLE_DIGITS]}"
