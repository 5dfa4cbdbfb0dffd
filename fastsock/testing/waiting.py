"""Waiting for what a socket shows, through poll() and never by the clock."""

from __future__ import annotations

import select
from typing import Any

from .process import DEADLINE, Hang


def events(sock: Any, mask: int, timeout: float = 0) -> int:
    """What poll() reports of a socket for a mask, after at most `timeout` seconds."""
    poller = select.poll()
    poller.register(sock, mask)
    found = poller.poll(timeout * 1000)
    return found[0][1] if found else 0


def until_readable(sock: Any) -> None:
    """Return when the socket is readable (data, end of file or error)."""
    if not events(sock, select.POLLIN, DEADLINE):
        raise Hang(f"not readable within {DEADLINE} s")


def until_writable(sock: Any) -> None:
    """Return when the socket takes bytes (or has an error)."""
    if not events(sock, select.POLLOUT, DEADLINE):
        raise Hang(f"not writable within {DEADLINE} s")


def until_hangup(sock: Any) -> None:
    """Return when both halves have ended: closed, reset or broken."""
    if not events(sock, 0, DEADLINE):
        raise Hang(f"no hang-up within {DEADLINE} s")
