"""Python's own options in a command line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def interpreter_options(command: Sequence[str]) -> tuple[list[str], str | None]:
    """Split a Python command line at its ``-m``: the options before it, and the module, or None without ``-m``."""
    options: list[str] = []
    words = iter(command[1:])
    for word in words:
        if word.startswith("--") and word != "--":
            options.append(word)
            if word == "--check-hash-based-pycs":
                options.append(next(words, ""))
            continue
        if not word.startswith("-") or word in ("-", "--"):
            break
        for place, letter in enumerate(word[1:], 1):
            if letter == "m":
                if place > 1:
                    options.append(word[:place])
                return options, word[place + 1 :] or next(words, "")
            if letter == "c":
                return options, None
            if letter in "WX":
                options.append(word)
                if not word[place + 1 :]:
                    options.append(next(words, ""))
                break
        else:
            options.append(word)
    return options, None
