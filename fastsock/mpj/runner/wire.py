"""The messages between the runner and its agent on another host, through ssh: frames of the control connections."""

from __future__ import annotations

from ...xxdev.job import frames

# A login shell may print something before the agent starts.
MAGIC = b"\0fastsock-agent-1\0"

# to the agent
START = 1  # directory, size of command, command..., then name and value of each variable
RANK = 2  # rank, its own variables...: start it; with "stdin" as last string it reads what comes by STDIN
STDIN = 3  # bytes; none at the end
SIGNAL = 4  # number
# from the agent
EXITED = 16  # rank, pid, status
OUTPUT = 17  # rank, 1 or 2, bytes; none at the end
TAKEN = 18  # the bytes of one STDIN have been read: more may come
FAILURE = 19  # why the agent cannot do what it should


def variables(environ: dict[str, str]) -> list[bytes]:
    """Names and values, one after the other."""
    return [part.encode("utf-8", "surrogateescape") for pair in environ.items() for part in pair]


def environment(strings: list[bytes]) -> dict[str, str]:
    """The reverse. Raises FrameError."""
    if len(strings) % 2:
        raise frames.FrameError("a variable without a value")
    texts = [string.decode("utf-8", "surrogateescape") for string in strings]
    return dict(zip(texts[::2], texts[1::2], strict=True))
