"""Spawned ranks are ranks like others: messages, collectives, communicators made of both jobs, and how they end."""

# ruff: noqa: F821  (comm, rank, size, parent, spawn, MPI, np and the bodies are the ranks' own)
from __future__ import annotations

import sys

import pytest

from . import jobs


@pytest.mark.parametrize("device", jobs.DEVICES)
def test_messages_go_both_ways(device):
    def child():
        assert parent.is_inter and parent.remote_size == 2 and size == 3
        for source in range(2):
            assert parent.recv(source=source, tag=7) == {"from": source, "to": rank}
            parent.send(np.full(50_000, rank), source, tag=8)
        values = np.empty(4, "i4")
        parent.Recv(values, source=0)
        parent.Send(values[::-1].copy(), 0)
        assert parent.recv(source=MPI.ANY_SOURCE, tag=9) in ("late 0", "late 1")
        parent.Disconnect()
        assert parent == MPI.COMM_NULL and MPI.Comm.Get_parent() == MPI.COMM_NULL

    def body():
        children = spawn(CHILD_BODY, 3)
        assert children.is_inter and children.remote_size == 3 and children.size == 2
        for to in range(3):
            children.send({"from": rank, "to": to}, to, tag=7)
        for to in range(3):
            assert np.array_equal(children.recv(source=to, tag=8), np.full(50_000, to))
        if rank == 0:
            for to in range(3):
                children.Send(np.arange(4, dtype="i4"), to)
            status = MPI.Status()
            back = np.empty(4, "i4")
            for _ in range(3):
                children.Recv(back, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
                assert list(back) == [3, 2, 1, 0] and 0 <= status.Get_source() < 3
            children.send("late 0", 0, tag=9)
            children.send("late 0", 1, tag=9)
        else:
            children.send("late 1", 2, tag=9)
        children.Disconnect()
        assert children == MPI.COMM_NULL

    jobs.run(body, 2, device, child=child)


@pytest.mark.parametrize("device", jobs.DEVICES)
def test_collectives_reach_the_other_job(device):
    def child():
        assert parent.bcast(None, root=1) == "hello"
        parent.reduce(rank + 1, op=MPI.SUM, root=1)
        assert parent.allreduce(rank) == 1  # of the parents
        assert parent.allgather(("child", rank)) == [("parent", 0), ("parent", 1)]
        parent.Barrier()
        parent.Disconnect()

    def body():
        children = spawn(CHILD_BODY, 3, root=1)
        root = MPI.ROOT if rank == 1 else MPI.PROC_NULL
        children.bcast("hello" if rank == 1 else None, root=root)
        found = children.reduce(None, op=MPI.SUM, root=root)
        assert found == (6 if rank == 1 else None)
        assert children.allreduce(rank) == 3  # of the children
        assert children.allgather(("parent", rank)) == [("child", 0), ("child", 1), ("child", 2)]
        children.Barrier()
        children.Disconnect()

    jobs.run(body, 2, device, child=child)


def use_all():
    """What both jobs do with the communicator `whole` of all their ranks, the parents first."""
    total, place = whole.size, whole.rank
    assert whole.allgather(place) == list(range(total))
    assert whole.allreduce(place) == total * (total - 1) // 2
    large = np.full(200_000, place, "f8")
    whole.Allreduce(MPI.IN_PLACE, large)
    assert (large == total * (total - 1) // 2).all()
    following, before = (place + 1) % total, (place - 1) % total
    assert whole.sendrecv(place, following, source=before) == before
    copy = whole.Dup()
    assert copy.bcast("dup" if place == 0 else None, 0) == "dup"
    copy.Free()
    request_copy, request = whole.Idup()
    request.Wait()
    assert request_copy.allreduce(1) == total
    request_copy.Free()
    halves = whole.Split(place % 2, -place)
    assert halves.allgather(place) == [each for each in range(total - 1, -1, -1) if each % 2 == place % 2]
    halves.Free()
    odd = whole.group.Incl([0, total - 1])
    part = whole.Create_group(odd, 3)
    if place in (0, total - 1):
        assert part.allgather(place) == [0, total - 1]
        between = MPI.COMM_SELF.Create_intercomm(0, whole, total - 1 if place == 0 else 0, 5)
        between.send(place, 0)
        assert between.recv(source=0) == (total - 1 if place == 0 else 0)
        between.Free()
        part.Free()
    made = whole.Create(whole.group.Excl([1]))
    if place != 1:
        assert made.size == total - 1
        made.Free()
    from_group = MPI.Intracomm.Create_from_group(whole.group, "all of us")
    assert from_group.allreduce(1) == total
    from_group.Free()
    ring = whole.Create_cart([total], [True])
    assert ring.Shift(0, 1) == (before, following)
    ring.Free()
    window = MPI.Win.Allocate(8 * total, 8, comm=whole)
    window.Fence()
    window.Put(np.array([place], "i8"), following, [place, 1, MPI.INT64_T])
    window.Fence()
    assert np.frombuffer(window.tomemory(), "i8")[before] == before
    window.Free()


@pytest.mark.parametrize("device", jobs.DEVICES)
def test_both_jobs_become_one_communicator(device):
    def body():
        children = spawn(CHILD_BODY, 2)
        whole = children.Merge(high=False)
        assert whole.rank == rank
        exec(USE)
        again = children.Dup()
        whole.Disconnect()
        again.Free()
        children.Disconnect()

    def child():
        whole = parent.Merge(high=True)
        assert whole.rank == 2 + rank
        exec(USE)
        again = parent.Dup()
        whole.Disconnect()
        again.Free()
        parent.Disconnect()

    jobs.run(body, 2, device, child=child, use=use_all)


def test_a_spawned_rank_spawns_too():
    def child():
        below = MPI.COMM_SELF.Spawn(__import__("sys").executable, ["-c", CHILD_START + LOWEST], 1)
        family = below.Merge(False)
        mine = parent.Merge(True)
        # whom I spawned, and who spawned me, meet: they know each other only by me
        between = family.Create_intercomm(0, mine, 0, 11)
        everybody = between.Merge(True)
        assert everybody.allgather("middle") == ["top", "middle", "low"]
        for each in (everybody, between, mine, family):
            each.Disconnect()
        below.Disconnect()
        parent.Disconnect()

    def lowest():
        family = parent.Merge(True)
        between = family.Create_intercomm(0, MPI.COMM_NULL, 0, 11)
        everybody = between.Merge(True)
        assert everybody.allgather("low") == ["top", "middle", "low"]
        for each in (everybody, between, family):
            each.Disconnect()
        parent.Disconnect()

    def body():
        children = spawn(CHILD_BODY, 1)
        mine = children.Merge(False)
        between = comm.Create_intercomm(0, mine, 1, 11)
        everybody = between.Merge(False)
        assert everybody.allgather("top") == ["top", "middle", "low"]
        for each in (everybody, between, mine):
            each.Disconnect()
        children.Disconnect()

    jobs.run(body, 1, child=child, lowest=lowest)


def test_several_programs_are_one_job():
    def body():
        import os
        import sys
        import tempfile

        program = (
            "import os, sys; from fastsock.mpj import MPI; world = MPI.COMM_WORLD; parent = MPI.Comm.Get_parent();"
            "parent.send((world.rank, world.size, world.Get_attr(MPI.APPNUM), sys.argv[1:], os.getcwd(),"
            "os.environ.get('COLOUR')), 0); parent.Disconnect()"
        )
        folder = os.path.realpath(tempfile.mkdtemp())
        first = MPI.Info.Create({"wdir": folder, "env": "COLOUR=red"})
        codes = []
        children = comm.Spawn_multiple(
            [sys.executable, sys.executable],
            [["-c", program, "a"], ["-c", program, "b", "c"]],
            [1, 2],
            [first, MPI.INFO_NULL],
            errcodes=codes,
        )
        assert codes == [[MPI.SUCCESS], [MPI.SUCCESS, MPI.SUCCESS]]
        said = [children.recv(source=source) for source in range(3)]
        assert said == [
            (0, 3, 0, ["a"], folder, "red"),
            (1, 3, 1, ["b", "c"], os.getcwd(), None),
            (2, 3, 1, ["b", "c"], os.getcwd(), None),
        ]
        children.Disconnect()
        os.rmdir(folder)

    jobs.run(body, 1)


def test_what_cannot_be_spawned_is_told_to_all():
    def body():
        import sys

        for command, words, why in [
            ("no-such-program-anywhere", [], "no program"),
            (sys.executable, ["-c", "pass"], "before they called Init"),
            (sys.executable, ["-c", "raise SystemExit(3)"], "status 3"),
        ]:
            try:
                comm.Spawn(command, words, 2)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_SPAWN and why in str(error), error
            else:
                raise AssertionError(f"{command} {words} was spawned")
        try:
            comm.Spawn(sys.executable, maxprocs=0)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_SPAWN
        assert comm.allreduce(1) == 2

    jobs.run(body, 2)


def test_many_jobs_are_spawned_one_after_the_other():
    def child():
        parent.send(rank, 0)
        parent.Disconnect()

    def body():
        import os
        import time

        from fastsock.mpj import ranks

        def descriptors():
            for child in ranks.current().children.copy():
                child.wait()
            comm.Iprobe()
            return len(os.listdir("/proc/self/fd"))

        before, until = 0, time.monotonic() + 30
        for number in range(10):
            children = spawn(CHILD_BODY, 1)
            assert children.recv(source=0) == 0
            children.Disconnect()
            if number == 1:
                before = descriptors()
        # some are opened once, when they are first needed; each job that leaves one would make eight
        while descriptors() >= before + 8:
            assert time.monotonic() < until, "descriptors stay open"

    jobs.run(body, 1, child=child)


def test_a_program_that_nobody_launched_spawns():
    def child():
        parent.bcast(None, root=0)
        parent.Disconnect()

    program = jobs.program_of(child, "children.bcast('x', root=MPI.ROOT); children.Disconnect(); print('done')")
    assert jobs.output_of([sys.executable, "-c", program]) == "done\n"


def test_the_death_of_a_child_ends_its_parent_only_while_they_are_connected():
    def child():
        import os

        apart = parent.bcast(None, root=0)
        if apart:
            parent.Disconnect()
        os.kill(os.getpid(), 9)

    def apart():
        children = spawn(CHILD_BODY, 1)
        children.bcast(True, root=MPI.ROOT)
        children.Disconnect()
        spawn("parent.Disconnect()", 1).Disconnect()  # takes longer than the other's end
        print("lives", flush=True)

    def connected():
        import signal

        children = spawn(CHILD_BODY, 1)
        children.bcast(False, root=MPI.ROOT)
        signal.pause()

    assert "lives" in jobs.run(apart, 1, child=child)
    said = jobs.run(connected, 1, child=child, status=1)
    assert "ranks that it spawned have failed" in said


def test_a_job_that_keeps_going_goes_on_without_those_that_it_spawned():
    def child():
        import os

        whole = parent.Merge(True)
        whole.Barrier()
        if rank == 1:
            os.kill(os.getpid(), 9)
        try:
            whole.recv(source=2)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_PROC_FAILED
        parent.send(whole.Get_failed().size, 0)

    body = """
    children = spawn(CHILD_BODY, 2)
    whole = children.Merge(False)
    whole.Barrier()
    try:
        whole.recv(source=2)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_FAILED
    assert children.recv(source=0) == 1 and list(whole.Get_failed().Translate_ranks(None, whole.group)) == [2]
    print("lives", flush=True)
    """
    with jobs.job(jobs.of(jobs.spawning(child), body), 1, options=["--keep-going"]) as process:
        assert "lives" in process.communicate(timeout=60)[0]


def test_who_disconnects_does_not_wait_for_those_that_have_ended():
    def child():
        whole = parent.Merge(True)
        whole.Barrier()
        parent.recv(source=0)  # the last of the parents: then they end
        whole.Disconnect()
        parent.Disconnect()
        print("parted", flush=True)

    def body():
        children = spawn(CHILD_BODY, 2)
        whole = children.Merge(False)
        whole.Barrier()
        if rank == 0:
            for to in range(2):
                children.send("bye", to)

    assert jobs.run(body, 2, child=child).count("parted") == 2


def test_children_end_with_their_parent_while_they_are_connected():
    def child():
        import os
        import signal

        parent.send(os.getpid(), 0)
        signal.pause()

    def body():
        import os

        children = spawn(CHILD_BODY, 1)
        print(f"child {children.recv(source=0)}", flush=True)
        os.kill(os.getpid(), 9)

    said = jobs.run(body, 1, child=child, status=1)
    pid = int(said.split("child ")[1].split()[0])
    assert jobs.is_gone(pid)


def test_short_messages_to_spawned_ranks_that_have_finished_are_dropped():
    def child():
        if rank == 0:
            parent.send(MPI.COMM_WORLD.size, 0)  # and ends, whether all of its parents have met it or not

    def body():
        import numpy as np

        children = spawn(CHILD_BODY, 2)
        if rank == 0:
            assert children.recv(source=0) == 2
        for _ in range(50):
            children.send("dropped", 1)
        try:
            children.Send(np.zeros(400_000), 1)
        except MPI.Exception as error:
            assert "has finished" in str(error), error
        children.send("dropped", 1)
        print("in vain", flush=True)

    assert jobs.run(body, 2, child=child).count("in vain") == 2


def test_abort_of_a_child_is_the_end_of_its_parent():
    def child():
        parent.bcast(None, root=0)
        MPI.COMM_WORLD.Abort(5)

    def body():
        children = spawn(CHILD_BODY, 2)
        children.bcast(0, root=MPI.ROOT if rank == 0 else MPI.PROC_NULL)
        children.recv(source=0)

    assert "aborted the job" in jobs.run(body, 2, child=child, status=1)
