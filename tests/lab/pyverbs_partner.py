"""An MPI program of two ranks, which knows nothing of the other one's verbs: what it sends comes back turned.

python pyverbs_partner.py stays|goes SHORT LONG...

So many short messages at once, then these lengths, one after the other. Who stays waits for more than comes.
"""

from __future__ import annotations

import random
import sys

import numpy

from fastsock.mpj import MPI

LAST = 999


def main(stays: bool, short: int, lengths: list[int]) -> None:
    world = MPI.COMM_WORLD
    # more than there are buffers: who sends runs out of them, and gets them back
    messages = [random.Random(number).randbytes(number * 37 % 500) for number in range(short)]
    sends = [world.Isend(message, dest=1, tag=number % 900) for number, message in enumerate(messages)]
    for number, message in enumerate(messages):
        expect(world, message, number % 900)
    MPI.Request.Waitall(sends)
    for number, length in enumerate(lengths):
        message = random.Random(-number).randbytes(length)
        world.Send(numpy.frombuffer(message, "u1"), dest=1, tag=number)
        expect(world, message, number)
    world.Send(b"", dest=1, tag=LAST)
    print("each byte came back")
    if stays:
        try:
            world.Recv(numpy.empty(1, "u1"), source=1)
        except MPI.Exception as error:
            print(error)


def expect(world: MPI.Comm, message: bytes, tag: int) -> None:
    status = MPI.Status()
    back = numpy.full(len(message) + 1, 0xAA, "u1")
    world.Recv(back, source=1, tag=tag, status=status)
    assert status.Get_count(MPI.BYTE) == len(message)
    assert back[-1] == 0xAA
    assert back[:-1].tobytes() == message[::-1]


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    main(sys.argv[1] == "stays", numbers[0], numbers[1:])
