"""One module for each concept of the stream contract; every `check_...` in it takes a PairMaker.

addresses, descriptors, buffering    names, numbers, and what is taken before it is read
calls, flags, transfer, timeouts     the calls that move data
meeting, readiness, closing, ending  from connect to the end, as its program and its pollers see it
forks, threads, signals              what else happens in a process

Only fastsock.testing imports it. tests/paths/test_stream.py runs it on every path.
"""
