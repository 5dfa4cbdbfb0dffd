"""Operations on every type that they are defined on, against numpy."""

# ruff: noqa: F821  (comm, rank and size are the ranks' own)
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastsock.mpj import MPI

from .ranks import run

NUMBERS = "bhilqBHILQ"
REALS = "efdg"
COMPLEX = "FDG"
REFERENCES = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "LAND": np.logical_and,
    "LOR": np.logical_or,
    "LXOR": np.logical_xor,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}
DEFINED = (
    [(name, code) for name in REFERENCES for code in NUMBERS]
    + [(name, code) for name in ("SUM", "PROD", "MAX", "MIN") for code in REALS]
    + [(name, code) for name in ("SUM", "PROD") for code in COMPLEX]
    + [(name, "?") for name in ("LAND", "LOR", "LXOR")]
)


def combine(name: str, datatype: MPI.Datatype, source: np.ndarray, target: np.ndarray) -> None:
    getattr(MPI, name).Reduce_local([source, datatype], [target, datatype])


@settings(max_examples=5)
@given(seed=st.integers(0, 1 << 32), count=st.integers(0, 100))
@example(seed=7, count=37)
@example(seed=7, count=0)
def test_as_numpy(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    for name, code in DEFINED:
        source, target = (random.integers(0, 5, count).astype(code) for _ in range(2))
        expected = REFERENCES[name](source, target).astype(code)
        combine(name, MPI.Datatype.fromcode(code), source, target)
        assert target.tolist() == expected.tolist(), (name, code)


@pytest.mark.parametrize(("name", "code"), [("BAND", "d"), ("MAX", "D"), ("MAXLOC", "i"), ("SUM", "c")])
def test_what_is_not_defined_is_an_error(name: str, code: str) -> None:
    with pytest.raises(MPI.Exception) as caught:
        combine(name, MPI.Datatype.fromcode(code), np.zeros(4, code), np.zeros(4, code))
    assert caught.value.Get_error_class() == MPI.ERR_OP


@pytest.mark.parametrize("logical", ["LOGICAL1", "LOGICAL2", "LOGICAL4", "LOGICAL8"])
def test_logical_values_of_fortran(logical: str) -> None:
    datatype = getattr(MPI, logical)
    source, target = np.array([0, 0, 1, 1], f"i{datatype.size}"), np.array([0, 1, 0, 1], f"i{datatype.size}")
    combine("LXOR", datatype, source, target)
    assert target.tolist() == [0, 1, 1, 0]


def test_bytes_take_bitwise_operations() -> None:
    source, target = np.array([1, 2, 6], "u1"), np.array([3, 4, 5], "u1")
    combine("BXOR", MPI.BYTE, source, target)
    assert target.tolist() == [2, 6, 3]


@pytest.mark.parametrize("name", ["SHORT_INT", "INT_INT", "LONG_INT", "FLOAT_INT", "DOUBLE_INT", "LONG_DOUBLE_INT"])
@pytest.mark.parametrize("operation", ["MAXLOC", "MINLOC"])
def test_locations(name: str, operation: str) -> None:
    value = {"S": "h", "I": "i", "F": "f", "D": "d"}.get(name[0], "g" if "DOUBLE" in name else "l")
    pair = np.dtype([("value", value), ("index", "i")], align=True)
    assert pair.itemsize == getattr(MPI, name).extent
    source = np.array([(5, 0), (7, 0), (9, 4), (1, 0)], pair)
    target = np.array([(5, 1), (6, 1), (9, 2), (2, 1)], pair)
    combine(operation, getattr(MPI, name), source, target)
    expected = {"MAXLOC": [(5, 0), (7, 0), (9, 2), (2, 1)], "MINLOC": [(5, 0), (6, 1), (9, 2), (1, 0)]}
    assert target.tolist() == expected[operation]


@pytest.mark.parametrize("operation", [MPI.MAXLOC, MPI.MINLOC])
@pytest.mark.parametrize("name", ["FLOAT_INT", "DOUBLE_INT", "LONG_DOUBLE_INT"])
def test_locations_of_what_is_no_number(name: str, operation: MPI.Op) -> None:
    """As MPICH and Open MPI have it: what cannot be compared does not take the place of what is there."""
    value = {"F": "f", "D": "d"}.get(name[0], "g")
    pair = np.dtype([("value", value if "LONG" not in name else "g"), ("index", "i")], align=True)
    source = np.array([(np.nan, 1), (3, 2), (np.nan, 3)], pair)
    target = np.array([(5, 4), (np.nan, 5), (np.nan, 1)], pair)
    operation.Reduce_local([source, getattr(MPI, name)], [target, getattr(MPI, name)])
    assert target["index"].tolist() == [4, 5, 1] and np.isnan(target["value"]).tolist() == [False, True, True]


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_pairs_between_ranks_leave_their_gaps_alone(device: str) -> None:
    def body():
        def make(letter, value, index, mark):
            pair = np.dtype([("value", letter), ("index", "i")], align=True)
            memory = np.full(pair.itemsize * len(value), mark, "u1")
            items = memory.view(pair)
            items["value"], items["index"] = value, index
            return memory, items, pair

        def gaps(memory, pair):
            used = np.zeros(pair.itemsize, bool)
            for kind, offset in pair.fields.values():
                used[offset : offset + kind.itemsize] = True
            return memory.reshape(-1, pair.itemsize)[:, ~used]

        def try_all(name, letter, many):
            # of equal values the lower rank's; each rank has the least of all now and then
            kind = getattr(MPI, name)
            values = [np.arange(many) % 5 + (np.arange(many) + each) % size for each in range(size)]
            least, where = np.min(values, axis=0), np.argmin(values, axis=0)
            block = slice(rank * many // size, (rank + 1) * many // size)
            upto = np.min(values[: rank + 1], axis=0)
            below = np.min(values[:rank], axis=0) if rank else None
            out, _, pair = make(letter, values[rank], rank, 0xA5)

            def check(call, expected, count=many, source=None, root=True):
                start = (np.zeros(count), -1) if source is None else source
                into, items, _ = make(letter, *start, 0x5A)
                call([into, kind] if count != many else [into, many, kind])
                if root and expected is not None:
                    assert np.array_equal(items["value"][: len(expected)], expected), (name, many)
                assert (gaps(into, pair) == 0x5A).all(), (name, many)
                return items

            sent, part, counts = [out, many, kind], many // size, [many // size] * size
            items = check(lambda into: comm.Allreduce(sent, into, MPI.MINLOC), least)
            assert np.array_equal(items["index"], where)
            own = values[rank], rank
            items = check(lambda into: comm.Allreduce(MPI.IN_PLACE, into, MPI.MINLOC), least, source=own)
            assert np.array_equal(items["index"], where)
            check(lambda into: comm.Reduce(sent, into, MPI.MINLOC, 1), least, root=rank == 1)
            check(lambda into: comm.Scan(sent, into, MPI.MINLOC), upto)
            check(lambda into: comm.Exscan(sent, into, MPI.MINLOC), below)
            check(lambda into: comm.Reduce_scatter_block([out, kind], into, MPI.MINLOC), least[block], part)
            check(lambda into: comm.Reduce_scatter(sent, into, counts, MPI.MINLOC), least[block], part)
            check(lambda into: comm.Iallreduce(sent, into, MPI.MINLOC).Wait(), least)
            check(lambda into: comm.Allgather([out, part, kind], [into[0], kind]), None)
            again, items, _ = make(letter, np.zeros(many), -1, 0x5A)
            request = comm.Allreduce_init(sent, [again, many, kind], MPI.MINLOC)
            for _ in range(2):
                items["value"] = 0
                request.Start()
                request.Wait()
                assert np.array_equal(items["value"], least) and (gaps(again, pair) == 0x5A).all()
            request.Free()
            assert (gaps(out, pair) == 0xA5).all()

        names = {"SHORT_INT": "h", "INT_INT": "i", "LONG_INT": "l", "FLOAT_INT": "f", "DOUBLE_INT": "d"}
        for name, letter in {**names, "LONG_DOUBLE_INT": "g"}.items():
            try_all(name, letter, size)
            try_all(name, letter, 700 * size)

    run(body, 3, device)


def test_own_operation_sees_items_with_their_gaps() -> None:
    every_other = MPI.INT.Create_vector(2, 1, 2).Create_resized(0, 16).Commit()

    def add(source: MPI.buffer, target: MPI.buffer, datatype: MPI.Datatype) -> None:
        assert datatype == every_other
        left, right = np.frombuffer(source, "i"), np.frombuffer(target, "i")
        right[::2] += left[::2]

    operation = MPI.Op.Create(add, commute=True)
    try:
        source, target = np.arange(8, dtype="i"), np.full(8, 100, "i")
        operation.Reduce_local([source, 2, every_other], [target, 2, every_other])
        assert target.tolist() == [100, 100, 102, 100, 104, 100, 106, 100]
    finally:
        operation.Free()


@pytest.mark.parametrize("device", ["iodev", "smpdev", "sysvdev"])
def test_types_and_operations_that_were_freed_are_forgotten(device: str) -> None:
    def body():
        import gc

        source, target = np.zeros(64), np.zeros(64)

        def use(length):
            dense = MPI.DOUBLE.Create_contiguous(length).Commit()
            sparse = MPI.DOUBLE.Create_vector(length, 2, 3).Commit()
            operation = MPI.Op.Create(lambda source, target, datatype: None)
            for datatype in (dense, sparse):
                comm.Bcast([source, 1, datatype], root=0)
                comm.Allgatherv([source, 1, datatype], [np.zeros(64 * size), [1] * size, None, datatype])
                comm.Sendrecv([source, 1, datatype], rank, 1, [target, 1, datatype], rank, 1)
                comm.Allreduce([source, 1, datatype], [target, 1, datatype], op=operation)
            comm.Allreduce([source, 1, dense], [target, 1, dense], op=MPI.SUM)
            MPI.SUM.Reduce_local([source, 1, dense], [target, 1, dense])
            for handle in (operation, dense, sparse):
                handle.Free()

        for _ in range(2):
            for length in range(2, 12):
                use(length)
            gc.collect()
            before = len(gc.get_objects())
        for number in range(200):
            use(2 + number % 10)
        gc.collect()
        assert len(gc.get_objects()) < before + 200, len(gc.get_objects()) - before

    run(body, 2, device)


@pytest.mark.parametrize(("device", "ranks"), [("iodev", 2), ("iodev", 3), ("iodev", 4), ("smpdev", 4)])
def test_own_operations_between_ranks(device: str, ranks: int) -> None:
    def body():
        calls = []

        def add(source, target, datatype):
            calls.append(datatype.name)
            code = "i" if datatype == MPI.INT else "d"
            given, room = np.frombuffer(source, code), np.frombuffer(target, code)
            assert given.size == room.size
            room += given

        def put_behind(source, target, datatype):  # does not commute
            given, room = np.frombuffer(source, "i8"), np.frombuffer(target, "i8")
            room += given * 10 ** np.ceil(np.log10(room + 1)).astype("i8")

        total, row = size * (size - 1) / 2, MPI.Op.Create(put_behind)
        operation = MPI.Op.Create(add, True)
        for length in (1, 8, 3000):
            for form in range(3):
                out, into = np.arange(length) + float(rank), np.zeros(length)
                # each rank writes its arguments in its own way
                send = [out, [out, MPI.DOUBLE], MPI.buffer.frombuffer(out).cast("d")][(form + rank) % 3]
                comm.Allreduce(send, [into, length, MPI.DOUBLE] if rank else into, operation)
                assert np.array_equal(into, np.arange(length) * size + total)
                into[:] = out
                comm.Allreduce(MPI.IN_PLACE, into, operation)
                assert np.array_equal(into, np.arange(length) * size + total)
            found = np.zeros(length, "i")
            comm.Allreduce(np.full(length, rank, "i"), found, operation)
            assert (found == total).all()
            order = np.zeros(length, "i8")
            comm.Allreduce(np.full(length, rank + 1, "i8"), order, row)
            assert (order == int("".join(str(each + 1) for each in range(size)))).all()
        assert set(calls) <= {"MPI_DOUBLE", "MPI_INT"}

        def keep(source, target, datatype):  # the lower rank's: does not commute
            target[:] = source

        kept, pairs = MPI.Op.Create(keep), MPI.DOUBLE.Create_contiguous(2).Commit()
        for length in (1, 100, 3000):  # the same number of bytes for both kinds of operations, by turns
            out, into = np.full(2 * length, float(rank)), np.zeros(2 * length)
            for turn in range(4):
                comm.Allreduce(out, into, (operation, kept)[turn % 2])
                assert (into == (total, 0)[turn % 2]).all()
                comm.Allreduce([out, length, pairs], [into, length, pairs], (operation, kept)[(turn + 1) % 2])
                assert (into == (0, total)[turn % 2]).all()
        assert set(calls) <= {"MPI_DOUBLE", "MPI_INT", pairs.name}
        comm.Allreduce(np.zeros(0), np.zeros(0), operation)

        def fails(source, target, datatype):
            raise LookupError("on purpose")

        broken, half = MPI.Op.Create(fails, True), comm.Split(rank // 2, rank)
        if half.size == 2:  # then both call the function
            try:
                half.Allreduce(np.zeros(3), np.zeros(3), broken)
            except LookupError:
                pass
            else:
                raise AssertionError("what the function raises is told")

    run(body, ranks, device)
