"""Handles and what hangs on them: attributes, error handlers, info, statuses, error codes."""

# ruff: noqa: F821  (comm is the ranks' own)
from __future__ import annotations

import pickle
from typing import Any

import pytest

from fastsock.mpj import MPI

from .ranks import DEVICES, run


def test_freeing_one_handle_leaves_the_others() -> None:
    first = MPI.INT.Create_contiguous(3)
    second = MPI.Datatype(first)
    first.Free()
    assert not first
    assert second.size == 12


def test_constants_cannot_be_freed() -> None:
    for free in (MPI.INT.Free, MPI.SUM.Free, MPI.DATATYPE_NULL.Free, MPI.OP_NULL.Free, MPI.INFO_NULL.Free):
        with pytest.raises(MPI.Exception):
            free()
    assert MPI.INT.size == 4


def test_numbers_stand_for_objects() -> None:
    made = MPI.INT.Create_contiguous(3)
    assert MPI.Datatype.fromhandle(made.handle) == made
    assert MPI.Datatype.f2py(MPI.INT.py2f()) is MPI.INT
    with pytest.raises(TypeError):
        MPI.Op.fromint(made.toint())
    with pytest.raises(ValueError, match="no object"):
        MPI.Op.fromint(123456789)


def test_attributes_follow_copies_and_end_with_their_object() -> None:
    told: list[Any] = []

    def copy(datatype: MPI.Datatype, keyval: int, value: Any) -> Any:
        told.append(("copy", datatype == original, value))
        return value + 1

    def delete(datatype: MPI.Datatype, keyval: int, value: Any) -> None:
        told.append(("delete", value))

    keyval = MPI.Datatype.Create_keyval(copy, delete)
    original = MPI.INT.Dup()
    original.Set_attr(keyval, 1)
    duplicate = original.Dup()
    assert duplicate.Get_attr(keyval) == 2
    duplicate.Free()
    original.Set_attr(keyval, 5)
    original.Free()
    assert MPI.Datatype.Free_keyval(keyval) == MPI.KEYVAL_INVALID
    assert told == [("copy", True, 1), ("delete", 2), ("delete", 1), ("delete", 5)]


def test_every_rank_can_do_ordinary_input_and_output() -> None:
    assert MPI.COMM_SELF.Get_attr(MPI.IO) == MPI.ANY_SOURCE


def test_keys_of_another_kind_are_refused() -> None:
    keyval = MPI.Comm.Create_keyval()
    datatype = MPI.INT.Dup()
    unknown = [keyval, MPI.TAG_UB, MPI.KEYVAL_INVALID, 987654, -5]
    gets = [lambda key=key: datatype.Get_attr(key) for key in unknown]
    gets.append(lambda: MPI.COMM_SELF.Get_attr(987654))
    for call in (lambda: datatype.Set_attr(keyval, 1), lambda: datatype.Set_attr(MPI.TAG_UB, 1), *gets):
        with pytest.raises(MPI.Exception) as caught:
            call()
        assert caught.value.Get_error_class() == MPI.ERR_KEYVAL
    MPI.Comm.Free_keyval(keyval)


def test_a_key_may_be_freed_again() -> None:
    keyval = MPI.Comm.Create_keyval()
    for _ in range(3):
        assert MPI.Comm.Free_keyval(keyval) == MPI.KEYVAL_INVALID
    for unknown in (keyval + 1000, MPI.TAG_UB, MPI.KEYVAL_INVALID, MPI.Datatype.Create_keyval()):
        with pytest.raises(MPI.Exception) as caught:
            MPI.Comm.Free_keyval(unknown)
        assert caught.value.Get_error_class() == MPI.ERR_KEYVAL


def test_info_is_an_ordered_mapping_of_strings() -> None:
    info = MPI.Info.Create({"b": "1", "a": "2"})
    info["c"] = "3"
    del info["b"]
    assert info.items() == [("a", "2"), ("c", "3")]
    assert pickle.loads(pickle.dumps(info)).items() == info.items()
    with pytest.raises(MPI.Exception) as caught:
        info.Set("k" * (MPI.MAX_INFO_KEY + 1), "v")
    assert caught.value.Get_error_class() == MPI.ERR_INFO_KEY


def test_a_status_counts_in_any_type() -> None:
    status = MPI.Status()
    status.Set_elements(MPI.BYTE, 40)
    pair = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT])
    assert (status.Get_count(MPI.DOUBLE), status.Get_count(MPI.BYTE)) == (5, 40)
    assert (status.Get_count(pair), status.Get_elements(pair)) == (MPI.UNDEFINED, MPI.UNDEFINED)
    status.Set_elements(pair, 7)
    assert (status.count, status.Get_elements(pair), status.Get_count(pair)) == (44, 7, MPI.UNDEFINED)
    assert MPI.Status.f2py(status.py2f()) == status


def test_a_status_is_copied_pickled_and_reached_through_memory() -> None:
    class Own(MPI.Status):
        def __init__(self, *given: Any) -> None:
            self.more = 1

    status = Own()
    status.source, status.tag, status.error, status.count, status.cancelled = 3, 9, 2, 80, True
    for copy in (MPI.Status(status), Own(status), pickle.loads(pickle.dumps(MPI.Status(status)))):
        assert copy == status
        assert (copy.source, copy.Get_tag(), copy.error, copy.count, copy.cancelled) == (3, 9, 2, 80, True)
    fields = status.tomemory()
    fields[MPI.F_SOURCE] = 5
    assert status.source == 5
    status.source = 7
    assert fields[MPI.F_SOURCE] == 7
    with pytest.raises(OverflowError):
        status.tag = 1 << 40


def test_what_is_no_status_is_refused() -> None:
    this, room = MPI.COMM_SELF, bytearray(1)
    for call in (lambda: MPI.Status(4), lambda: this.Sendrecv(room, 0, 0, bytearray(1), 0, 0, 5)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a Status, got a int"):
            call()


def test_added_error_codes_have_class_and_text() -> None:
    errorclass = MPI.Add_error_class()
    code = MPI.Add_error_code(errorclass)
    MPI.Add_error_string(code, "no more paper")
    error = MPI.Exception(code)
    assert (error.Get_error_class(), str(error)) == (errorclass, "no more paper")
    assert pickle.loads(pickle.dumps(error)) == error


def test_an_error_handler_is_called_with_its_object() -> None:
    told: list[Any] = []
    session = MPI.Session.Init()
    handler = MPI.Session.Create_errhandler(lambda where, code: told.append((where == session, code)))
    session.Set_errhandler(handler)
    handler.Free()
    session.Call_errhandler(MPI.ERR_TAG)
    session.Finalize()
    assert told == [(True, MPI.ERR_TAG)]


def test_operations_pickle_with_their_function() -> None:
    with pytest.raises(ValueError, match="cannot call"):
        MPI.OP_NULL(1, 2)
    operation = MPI.Op.Create(_longest, commute=False)
    other = pickle.loads(pickle.dumps(operation))
    assert other("a", "bc") == "bc"
    assert not other.Is_commutative()
    operation.Free()
    other.Free()


def _longest(x: str, y: str, datatype: None) -> str:
    return max(x, y, key=len)


def test_buffers_of_the_library() -> None:
    memory = MPI.Alloc_mem(8)
    memory[:] = 7
    memory[2:4] = b"ab"
    assert memory.tobytes() == b"\7\7ab\7\7\7\7"
    assert memoryview(memory[2:4]).tobytes() == b"ab"
    assert MPI.Get_address(memory[2:]) == memory.address + 2
    assert MPI.Aint_add(memory.address, 2) - memory.address == 2
    MPI.Free_mem(memory)
    assert (memory.address, len(memory)) == (0, 0)


@pytest.mark.parametrize("device", DEVICES)
def test_each_rank_counts_its_error_handlers(device: str) -> None:
    def body():
        created = [MPI.Comm.Create_errhandler(print) for _ in range(32)]  # as many as a rank may have
        comm.Barrier()
        try:
            MPI.Comm.Create_errhandler(print)
        except RuntimeError as error:
            assert "free one first" in str(error)
        else:
            raise AssertionError("a rank may have 33 of them")
        created.pop().Free()
        created.append(MPI.Comm.Create_errhandler(print))
        comm.Barrier()
        for each in created:
            each.Free()

    run(body, 2, device)
