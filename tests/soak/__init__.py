"""The soak: many connections open, stream checksummed data, close and die at random, for minutes.

    python -m tests.soak --minutes 5 --connections 200

One server process and several client processes. Every client thread opens a connection, streams both ways, verifies
every byte and ends the connection in one of the ways that programs end them; now and then a whole client process is
killed and replaced. At the end, and in between, the server must hold the descriptors, the memory and the names that it
held before, and every stream must have been whole as far as its end allows.

    python -m tests.soak --schedules 10000 --path shm tcp
    python -m tests.soak --kills 10000 --path shm

Random schedules of every call on one connection, from a printed seed: each is played on plain TCP first, which says
what every call must give, then on each path (schedule.py, calls.py, end.py, playing.py, comparing.py). Both ends are
processes, or threads of one. A schedule that goes otherwise is told with the steps that it needs for that. And deaths
of either end in such schedules, in half of them with a descriptor detached (kills.py): what was handed over arrives,
or an error tells that it did not.

    python -m tests.soak --many 1000000 --path shm

Short connections, one after the other: a number makes the plan of each, every byte is checked, and both ends gain
memory at calls of their own (many.py).
"""
