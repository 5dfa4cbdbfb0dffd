"""Which paths work here, which do not, why, what to do, and how fast they are.

    python -m fastsock.doctor [--json] [--no-measure] [HOST PORT]

With HOST and PORT it connects there, as any program would, and says which path that connection takes.
The exit status is 0 where programs can communicate at all: tcp works, the settings can be read, and
HOST and PORT, if given, were reached; else 1. A command line that makes no sense gives 2.

examine    what is found, as plain values
measure    round trips and throughput of each path, beside TCP's
tell       what was found, said to a reader

Nothing imports this but its own command line. Tests: tests/test_doctor.py.
"""
