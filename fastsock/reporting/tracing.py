"""FASTSOCK_TRACE and ``--trace``: every decision that the logger "fastsock" hears of, told on standard error."""

from __future__ import annotations

import logging

from .report import print_line


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            print_line(self.format(record))
        except Exception:
            self.handleError(record)


_handler: _ToStandardError | None = None
_level = logging.NOTSET


def arrange() -> None:
    """Tell from now on. Idempotent."""
    global _handler, _level
    if _handler is None:
        logger = logging.getLogger("fastsock")
        _handler, _level = _ToStandardError(), logger.level
        _handler.setFormatter(logging.Formatter("fastsock[%(process)d] %(message)s"))
        logger.addHandler(_handler)
        logger.setLevel(logging.DEBUG)


def withdraw() -> None:
    """Put the logger back as it was. Idempotent."""
    global _handler
    if _handler is not None:
        logger = logging.getLogger("fastsock")
        logger.removeHandler(_handler)
        logger.setLevel(_level)
        _handler = None
