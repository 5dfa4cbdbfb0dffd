"""Additions to the standard, with mpi4py's names.

dtlib    numpy's data types as MPI's and back
pkl5     communicators whose objects go with large buffers beside their pickle
pool     `multiprocessing.pool` over `fastsock.mpj.futures`
sync     counters, mutexes, conditions, semaphores of all ranks; ranks one after the other

Above MPI and futures. Tests: tests/mpj/test_dtlib.py, test_futures.py, windows/test_sync.py; of pkl5, mpi4py's own
(tests/mpi4py_suite).
"""
