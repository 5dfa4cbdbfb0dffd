"""Finds out which paths work here and how fast they are, and says what to do about those that do not.

    python -m fastsock.doctor [--json] [--no-measure] [HOST PORT]

With HOST and PORT it connects there, as any program would, and says which path that connection takes.
The exit status is 0 if programs can communicate at all: tcp works, the settings can be read, and HOST
and PORT, if given, were reached. Otherwise it is 1. A command line that cannot be understood gives 2.

examine    the findings, as plain values
measure    round trips and throughput of each path, beside TCP's
hardware   RDMA devices, their ports and what they need; AF_SMC; AF_INET_SDP
by_pyverbs what the devices say themselves, where pyverbs can be imported
smc        what the kernel tells of AF_SMC's devices
report     the findings, as text for a reader

Nothing imports this but its own command line. Tests: tests/test_doctor.py,
tests/test_doctor_hardware.py, and tests/lab/test_doctor.py with real devices.
"""
