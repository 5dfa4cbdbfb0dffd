"""A 3.13 and 3.14: arrays by sockets, in one host's memory."""

from __future__ import annotations

import curves
from common.exchange import PING_PONG

from .figure import Figure, Panel, with_data
from .reading import latency_and_bandwidth
from .records import Records

SOURCE = "arrays"
LINES = [
    curves.BYTES_UNIX, curves.ARRAYS_SHM, curves.ARRAYS_TCP, curves.BYTES_SHM, curves.BYTES_TCP,
    curves.PICKLED,
]  # fmt: skip


def _latency(records: Records) -> list[Panel]:
    return with_data(latency_and_bandwidth(records.samples(SOURCE)[0], PING_PONG, LINES)[:1], "A 3.13")


def _bandwidth(records: Records) -> list[Panel]:
    return with_data(latency_and_bandwidth(records.samples(SOURCE)[0], PING_PONG, LINES)[1:], "A 3.14")


_NOTE = ("AF_UNIX stands for native sockets, send_array for JFS (all dtypes go alike), bytes over tcp for JVM sockets,"
         " pickle over tcp for serialization.")  # fmt: skip
FIGURES = [
    Figure("A 3.13", "array communication latency on shared memory", [SOURCE], _latency, 1, _NOTE),
    Figure("A 3.14", "array communication bandwidth on shared memory", [SOURCE], _bandwidth, 1, _NOTE),
]
