"""Ranks that fork in the middle of their work: a child is no rank, and its calls end with an error, not in a wait."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import os

import pytest

from .ranks import run

TIMES = "100" if os.environ.get("FASTSOCK_SOAK") else "12"


@pytest.mark.parametrize("device", ["iodev", "sysvdev"])
def test_a_child_forked_while_other_threads_communicate_hangs_in_no_call(device, monkeypatch):
    monkeypatch.setenv("TIMES", TIMES)

    def body():
        import os
        import signal
        import sys
        import threading
        import warnings

        warnings.simplefilter("ignore")  # that a process of several threads forks
        faulthandler.cancel_dump_traceback_later()  # its lock is none that a child finds free

        faulthandler.register(signal.SIGALRM, chain=True)  # where a child hangs

        def check(right):
            assert right

        going = True
        uses = {
            "barrier": lambda comm: comm.barrier(),
            "allreduce": lambda comm: check(comm.allreduce(1) == comm.size),
            "Allreduce": lambda comm: comm.Allreduce(np.ones(4), np.ones(4)),
            "Dup": lambda comm: comm.Dup().Free(),
            "Ibarrier": lambda comm: comm.Ibarrier().Wait(),
            "sendrecv": lambda comm: check(len(comm.sendrecv(b"x" * 200000, 1 - rank, source=1 - rank)) == 200000),
        }
        local = {
            "attributes": lambda: MPI.Comm.Free_keyval(MPI.Comm.Create_keyval()),
            "types": lambda: MPI.DOUBLE.Create_vector(3, 1, 2).Commit().Free(),
            "codes": lambda: MPI.Add_error_class(),
        }
        comms = {name: comm.Dup() for name in uses}

        for name, use in uses.items():  # what they import: a child would wait for an import of another thread
            use(comms[name])

        def communicate(name):
            while comms[name].bcast(going):
                uses[name](comms[name])
                for use in local.values():
                    use()

        threads = [threading.Thread(target=communicate, args=(name,)) for name in uses]
        for thread in threads:
            thread.start()
        for number in range(int(os.environ["TIMES"])):
            name = list(uses)[number % len(uses)]
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                for use in local.values():
                    use()
                try:
                    uses[name](comms[name])
                except MPI.Exception:
                    sys.exit(0)
                sys.exit(1)
            assert os.waitpid(child, 0)[1] == 0, (number, name)
        going = False
        for thread in threads:
            thread.join()

    run(body, 2, device)
