"""Recovery from failures: the chapter of MPI that goes on when ranks have died.

calls           the calls of communicators
revocation      a communicator is revoked: how all ranks hear of it, and what becomes of what is under way
agreement       how the members that live agree, although members die in the middle of it
consensus       how an agreement is followed: a call that waits, or one that goes on by itself

How a rank is known to have failed is the engine's and the job's; `python -m fastsock.mpj.run --keep-going` lets the
others go on. Above collectives, below communicators, which it gets as arguments. Tests: tests/mpj/recovery,
tests/model/agreement.pml, tests/model/revocation.pml.
"""
