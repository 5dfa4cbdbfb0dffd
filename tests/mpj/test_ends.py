"""A program that ends without Finalize: its messages are delivered first, and only then its rank has finished."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..helpers.programs import free_port
from ..xxdev.launchers import CLEAN, SHARED, by_hand, start_ranks
from .ranks import DEVICES, PREFIX, run, source_of

PROCESSES = ["iodev", "sysvdev"]  # where a rank is a process: has signals, and an end, of its own


def ends_with_messages_under_way():
    MPI.Attach_buffer(None)
    if rank == 0:
        comm.bsend(np.full(400_000, 1.5), 1, 5)
        left = [comm.isend(number * 50_000, 1, 6) for number in range(20)]  # noqa: F841
    else:
        there = comm.recv(source=0, tag=5)
        assert (there == 1.5).all() and there.size == 400_000
        assert [comm.recv(source=0, tag=6) for _ in range(20)] == [number * 50_000 for number in range(20)]
        print("all came", flush=True)


@pytest.mark.parametrize("device", DEVICES)
def test_messages_under_way_are_delivered_before_a_rank_has_finished(device):
    assert "all came" in run(ends_with_messages_under_way, 2, device)


def test_rank_0_that_serves_the_others_delivers_its_messages_before_it_waits_for_their_ends():
    """The server of a job without a runner is in rank 0, and goes on until all others have finished."""
    port = free_port()
    each = [SHARED | by_hand(number, 2, port) for number in range(2)]
    ended = start_ranks(each, PREFIX + source_of(ends_with_messages_under_way))
    assert [status for status, _, _ in ended] == [0, 0], ended
    assert ended[1][1] == "all came\n"


@pytest.mark.parametrize("number", ["SIGKILL", "SIGINT"])
@pytest.mark.parametrize("device", PROCESSES)
def test_a_rank_that_dies_while_its_messages_are_delivered_has_not_finished(device, number, monkeypatch):
    monkeypatch.setenv("SIGNAL", number)

    def body():
        import os
        import signal
        import threading

        if rank == 1:

            def end():
                while not MPI.Is_finalized():  # it is when the program has ended, before the messages are delivered
                    pass
                os.kill(os.getpid(), signal.Signals[os.environ["SIGNAL"]])

            MPI.Attach_buffer(None)
            comm.bsend(np.zeros(400_000), 0, 5)
            threading.Thread(target=end, daemon=True).start()
        else:
            try:
                comm.recv(source=1, tag=9)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_PROC_FAILED, error
                assert "rank 1" in str(error) and "has finished" not in str(error), error
                print(error, flush=True)
            else:
                raise AssertionError("not raised")

    told = run(body, 2, device, status=1)
    assert "rank 1" in told and "AssertionError" not in told
    if number == "SIGINT":
        assert "ended by an uncaught KeyboardInterrupt" in told


@pytest.mark.parametrize("device", PROCESSES)
def test_a_forked_child_that_ends_delivers_nothing_of_its_rank(device):
    def body():
        import os
        import signal
        import sys

        faulthandler.cancel_dump_traceback_later()  # its lock is none that a child finds free
        MPI.Attach_buffer(None)
        if rank == 0:
            comm.bsend(np.full(400_000, 2.5), 1)
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            comm.send("the child has ended", 1, 3)
        else:
            assert comm.recv(source=0, tag=3) == "the child has ended"
            assert (comm.recv(source=0) == 2.5).all()
            print("all came", flush=True)

    assert "all came" in run(body, 2, device)


def sends_in_vain():
    def error_of(call, *arguments):
        try:
            call(*arguments)
        except MPI.Exception as error:
            assert "has finished" in str(error), error
            return error.Get_error_class()
        return MPI.SUCCESS

    MPI.Attach_buffer(None)
    if rank == 1:
        assert comm.recv(source=0) == "go"
    else:
        comm.send("go", 1)
        assert error_of(comm.recv, None, 1) == MPI.ERR_PROC_FAILED  # waits for its end
        for call in (comm.send, comm.bsend):
            call("short", 1)
        for call in (comm.Send, comm.Rsend, comm.Bsend):
            call(np.zeros(10), 1)
        comm.isend("short", 1).wait()
        assert error_of(comm.ssend, "short", 1) == MPI.ERR_PROC_FAILED
        assert error_of(comm.Send, np.zeros(400_000), 1) == MPI.ERR_PROC_FAILED
        print("in vain", flush=True)


@pytest.mark.parametrize("device", DEVICES)
def test_short_messages_to_a_rank_that_has_finished_are_dropped(device):
    assert "in vain" in run(sends_in_vain, 2, device)


@pytest.mark.parametrize("device", PROCESSES)
def test_so_are_those_to_a_rank_that_was_never_met(device, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBER", str(tmp_path / "number"))
    os.mkfifo(tmp_path / "number")

    def body():
        import contextlib
        import os
        import select

        if rank == 1:
            with open(os.environ["NUMBER"], "w") as file:
                print(os.getpid(), file=file)
        else:
            with open(os.environ["NUMBER"]) as file:
                number = int(file.read())
            with contextlib.suppress(ProcessLookupError):
                select.select([os.pidfd_open(number)], [], [])
            comm.send("short", 1)
            try:
                comm.Send(np.zeros(400_000), 1)
            except MPI.Exception as error:
                assert "has finished" in str(error), error
                print("in vain", flush=True)

    assert "in vain" in run(body, 2, device)


LATE = """
import atexit
from fastsock.mpj import rc
rc.initialize = False
from fastsock.mpj import MPI

atexit.register(lambda: print("together", MPI.COMM_WORLD.allreduce(1), flush=True))
MPI.Init()
"""


def test_functions_of_atexit_from_before_init_may_still_communicate():
    port = free_port()
    ended = start_ranks([SHARED | by_hand(number, 2, port) for number in range(2)], LATE)
    assert [(status, told) for status, told, _ in ended] == [(0, "together 2\n")] * 2, ended


ENDING_BY_ITSELF = """
import atexit, sys

def end():
    comm = MPI.COMM_WORLD
    comm.send("late", 1 - comm.rank)
    assert comm.recv(source=1 - comm.rank) == "late"
    MPI.Finalize()
    print("ended", flush=True)

atexit.register(end)  # before the import: it runs behind what that registers
from fastsock import mpj
mpj.rc.finalize = False
from fastsock.mpj import MPI
"""


@pytest.mark.parametrize("device", PROCESSES)
def test_a_program_that_ends_its_ranks_itself_may_still_use_them(device, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(ENDING_BY_ITSELF)
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "--device", device, str(program)]
    ended = subprocess.run(command, env=CLEAN, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n" * 2, "")
