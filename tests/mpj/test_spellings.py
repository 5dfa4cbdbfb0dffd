"""However a program names a buffer, the compiled calls read it: the general path is asked for nothing."""

from __future__ import annotations

import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.mpj import MPI
from fastsock.mpj.datatypes import buffers
from fastsock.mpj.messages.point_to_point import PointToPoint

SELF = MPI.COMM_SELF


def spellings(values: list[float]) -> dict[str, Any]:
    """Three doubles in all ways that a program may write; the memory of each begins with them or has them at 1."""
    plain = np.array(values)
    behind = np.array([9.0, *values])
    return {
        "array": plain,
        "type": [plain, MPI.DOUBLE],
        "code": [plain, "d"],
        "type string": (plain, "f8"),
        "count": [plain, 3],
        "count, type": (plain, 3, MPI.DOUBLE),
        "count, code": [plain, np.int32(3), "d"],
        "count, no type": [plain, 3, None],
        "pair": [behind, (3, 1)],
        "pair, type": [behind, (3, 1), MPI.DOUBLE],
        "pair without a count": [behind, (None, 1), MPI.DOUBLE],
        "four": [behind, 3, 1, MPI.DOUBLE],
        "four, code": (behind, [3][0], np.int64(1), "d"),
        "bytes": [bytearray(plain.tobytes()), 3, MPI.DOUBLE],
        "array.array": array("d", values),
        "memoryview": memoryview(plain),
        "its memory": [MPI.memory(plain), 3, MPI.DOUBLE],
        "derived": [plain, 1, MPI.DOUBLE.Create_contiguous(3).Commit()],
    }


NAMES = list(spellings([0.0, 0.0, 0.0]))


def contents(spelling: Any) -> list[float]:
    memory = spelling[0] if isinstance(spelling, (list, tuple)) else spelling
    return np.frombuffer(memory)[-3:].tolist()


@pytest.fixture
def compiled_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call that is left to the general path fails."""

    def refuse(*arguments: Any) -> Any:
        raise AssertionError(f"left to the general path: {arguments}")

    for name in ("Send", "Recv", "Sendrecv", "Isend", "Issend", "Irsend", "Irecv"):
        monkeypatch.setattr(PointToPoint, name, refuse)


@pytest.mark.usefixtures("compiled_only")
@pytest.mark.parametrize("name", NAMES)
def test_messages_of_every_spelling(name: str) -> None:
    wanted = [1.5, -2.0, 3.25]
    into = spellings([0.0, 0.0, 0.0])[name]
    SELF.Sendrecv(spellings(wanted)[name], 0, 1, into, 0, 1)
    assert contents(into) == wanted
    status = MPI.Status()
    again = spellings([0.0, 0.0, 0.0])[name]
    SELF.Sendrecv(into, 0, 1, again, 0, MPI.ANY_TAG, status)
    assert contents(again) == wanted
    assert (status.source, status.tag, status.Get_count(MPI.DOUBLE)) == (0, 1, 3)
    for start in (SELF.Isend, SELF.Issend, SELF.Irsend):
        received, waited = (spellings([0.0, 0.0, 0.0])[name] for _ in range(2))
        first, second, third = start(into, 0, 2), SELF.Isend(into, 0, 3), SELF.Irecv(waited, 0, 3)
        SELF.Recv(received, 0, 2)
        MPI.Request.Waitall([first, second, third])
        assert contents(received) == contents(waited) == wanted


@pytest.mark.parametrize(
    "memory", [np.array(1.5), np.array([True, False]), np.full((2, 3), 2j), np.arange(4, dtype="u1")]
)
def test_messages_of_every_kind_of_array(memory: Any, compiled_only: None) -> None:
    into = np.zeros_like(memory)
    SELF.Sendrecv(memory, 0, 0, into, 0, 0)
    assert (into == memory).all()


def test_a_refused_exchange_leaves_no_receive_behind() -> None:
    into, later = np.zeros(2), np.zeros(2)
    with pytest.raises(ValueError, match="take the bytes"):
        SELF.Sendrecv([np.ones(2), 3, MPI.DOUBLE], 0, 0, into, 0, 0)
    with pytest.raises(MPI.Exception):
        SELF.Sendrecv(np.ones(3), 0, 0, into, 0, 0)
    SELF.Sendrecv(np.full(2, 5.0), 0, 0, later, 0, 0)
    assert (later == 5).all()


places = st.integers(-2, 9) | st.none() | st.integers(2**60, 2**64)
forms = st.sampled_from(["B", "i", "d", "D", MPI.INT, MPI.DOUBLE, MPI.DATATYPE_NULL, MPI.DOUBLE_INT, "nothing", None])
memories = st.sampled_from([np.zeros(6), np.zeros(12, "i4"), bytearray(48), MPI.memory(bytearray(48)), None, [1, 2]])
MADE: Any = {
    0: lambda memory, count, place, type_: memory,
    1: lambda memory, count, place, type_: [memory, type_],
    2: lambda memory, count, place, type_: [memory, count],
    3: lambda memory, count, place, type_: (memory, (count, place)),
    4: lambda memory, count, place, type_: [memory, count, type_],
    5: lambda memory, count, place, type_: [memory, [count, place], type_],
    6: lambda memory, count, place, type_: (memory, count, place, type_),
}


def outcome(read: Any, argument: Any, blocks: int) -> Any:
    try:
        found = read(argument, True, blocks)
    except (TypeError, ValueError, KeyError, BufferError, OverflowError) as error:
        return type(error), str(error)
    # where there is nothing, it is nowhere
    return found.count and found.address, found.count, found.datatype.ob


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(MADE)), memories, places, places, forms, st.integers(0, 3))
def test_compiled_reading_is_the_general_one(
    form: int, memory: Any, count: Any, place: Any, type_: Any, blocks: int
) -> None:
    argument = MADE[form](memory, count, place, type_)
    assert outcome(buffers.simple, argument, blocks) == outcome(buffers._simple, argument, blocks)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_collectives_of_every_spelling(ranks: int) -> None:
    program = Path(__file__).with_name("collectives") / "spelled_calls.py"
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", str(ranks), "--timeout", "60", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr[-3000:]
