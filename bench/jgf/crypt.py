"""Crypt: IDEA encrypts a text, then decrypts it.

Rank 0 sends each rank its block of the text and receives what that rank decrypted (section2/crypt/IDEATest.java).
The cipher is as published (Lai, Massey: A Proposal for a New Block Encryption Standard, 1990): in its products modulo
2^16 + 1 a zero stands for 2^16. JGF's own text lets it stand for zero, and so cannot decrypt every text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jgf.blocks import Blocks
from jgf.checking import verdict
from jgf.constants import CRYPT, CRYPT_SEED, TITLE
from jgf.java_random import JavaRandom
from ranks.kernel import Kernel, Verification

BLOCK = 8  # bytes
WORDS = 4  # of 16 bits, the low byte first
ROUNDS = 8
SUBKEYS = 6 * ROUNDS + 4
CHUNK = 8192  # blocks at a time: all words of them stay in the nearest caches
MODULUS = 0x10001


def encryption_keys(key: Sequence[int]) -> list[int]:
    """The 52 subkeys of a key of eight words: the key, then the key rotated left by 25 bits, and so on."""
    bits = sum(word << (112 - 16 * i) for i, word in enumerate(key))
    subkeys: list[int] = []
    while len(subkeys) < SUBKEYS:
        subkeys += [bits >> (112 - 16 * i) & 0xFFFF for i in range(8)]
        bits = (bits << 25 | bits >> 103) & ((1 << 128) - 1)
    return subkeys[:SUBKEYS]


def decryption_keys(subkeys: Sequence[int]) -> list[int]:
    """The subkeys that undo `subkeys`: inverses of the keys of each transform, in the opposite order of rounds."""

    def inverse(word: int) -> int:
        return pow(word or 0x10000, -1, MODULUS) & 0xFFFF

    undoing: list[int] = []
    for i in range(ROUNDS + 1):
        first, second, third, fourth = subkeys[6 * (ROUNDS - i) :][:4]
        if 0 < i < ROUNDS:  # the middle words are exchanged between rounds only
            second, third = third, second
        undoing += [inverse(first), -second & 0xFFFF, -third & 0xFFFF, inverse(fourth)]
        if i < ROUNDS:
            undoing += subkeys[6 * (ROUNDS - i) - 2 :][:2]
    return undoing


class Numpy:
    def reserve(self) -> None:
        self.words = np.empty((WORDS + 2, CHUNK), np.uint16)
        self.high = np.empty(CHUNK, np.uint16)
        self.wide = np.empty(CHUNK, np.uint32)
        self.less = np.empty(CHUNK, np.bool_)

    def plain_text(self, length: int) -> np.ndarray:
        return np.arange(length, dtype=np.uint32).astype(np.uint8)

    def cipher(self, text: np.ndarray, result: np.ndarray, subkeys: Sequence[int]) -> None:
        """Encrypt or decrypt whole blocks: arrays of bytes."""
        given, made = (array.view("<u2").reshape(-1, WORDS) for array in (text, result))
        for begin in range(0, len(given), CHUNK):
            self._cipher(given[begin : begin + CHUNK], made[begin : begin + CHUNK], subkeys)

    def _cipher(self, given: np.ndarray, made: np.ndarray, subkeys: Sequence[int]) -> None:
        a, b, c, d, s, t = self.words[:, : len(given)]
        for word, column in zip((a, b, c, d), given.T, strict=True):
            np.copyto(word, column)
        for i in range(0, 6 * ROUNDS, 6):
            self._multiply(a, subkeys[i])
            b += np.uint16(subkeys[i + 1])
            c += np.uint16(subkeys[i + 2])
            self._multiply(d, subkeys[i + 3])
            np.bitwise_xor(a, c, out=s)
            self._multiply(s, subkeys[i + 4])
            np.bitwise_xor(b, d, out=t)
            t += s
            self._multiply(t, subkeys[i + 5])
            s += t
            a ^= t
            c ^= t
            b ^= s
            d ^= s
            b, c = c, b
        b, c = c, b  # not after the last round
        self._multiply(a, subkeys[-4])
        b += np.uint16(subkeys[-3])
        c += np.uint16(subkeys[-2])
        self._multiply(d, subkeys[-1])
        for word, column in zip((a, b, c, d), made.T, strict=True):
            np.copyto(column, word)

    def _multiply(self, words: np.ndarray, key: int) -> None:
        """Products with one subkey modulo 2^16 + 1, in place: the low half less the high half, as 2^16 is -1 there."""
        n = len(words)
        high, wide, less = self.high[:n], self.wide[:n], self.less[:n]
        if key == 0:
            np.subtract(np.uint16(1), words, out=words)
            return
        zeros = np.flatnonzero(words == 0)
        np.copyto(wide, words)
        wide *= np.uint32(key)
        wide >>= np.uint32(16)
        np.copyto(high, wide, casting="unsafe")
        words *= np.uint16(key)
        np.less(words, high, out=less)
        words -= high
        words += less
        words[zeros] = (1 - key) & 0xFFFF


class Skeleton(Numpy):
    def reserve(self) -> None:
        pass

    def plain_text(self, length: int) -> np.ndarray:
        return np.zeros(length, np.uint8)

    def cipher(self, text: np.ndarray, result: np.ndarray, subkeys: Sequence[int]) -> None:
        pass


class Crypt(Kernel):
    name = "Crypt"
    title = TITLE
    problems = CRYPT
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.blocks = Blocks(CRYPT[problem], comm.Get_size(), BLOCK)
        self.size = f"{CRYPT[problem]} bytes"
        self.iterations = 1

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return lambda ranks: Blocks(CRYPT[problem], ranks, BLOCK).usable

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        return 9 * CRYPT[problem] + ranks * 20 * CHUNK  # the most while rank 0 makes the text

    def prepare(self) -> None:
        rank = self.comm.Get_rank()
        key = [int(word) & 0xFFFF for word in JavaRandom(CRYPT_SEED).ints(8)]
        self.encryption = encryption_keys(key)
        self.decryption = decryption_keys(self.encryption)
        self.arithmetic.reserve()
        self.mine, self.encrypted, self.decrypted = np.zeros((3, self.blocks.length(rank)), np.uint8)
        if rank == 0:
            self.plain = self.arithmetic.plain_text(self.blocks.total)
            self.result = np.zeros_like(self.plain)

    def run(self) -> None:
        comm, rank, ranks = self.comm, self.comm.Get_rank(), self.comm.Get_size()
        comm.Barrier()
        if rank == 0:
            self.mine[:] = self.plain[self.blocks.of(0)]
            for other in range(1, ranks):
                comm.Ssend(self.plain[self.blocks.of(other)], dest=other, tag=other)
        else:
            comm.Recv(self.mine, source=0, tag=rank)
        self.arithmetic.cipher(self.mine, self.encrypted, self.encryption)
        self.arithmetic.cipher(self.encrypted, self.decrypted, self.decryption)
        comm.Barrier()
        if rank == 0:
            self.result[self.blocks.of(0)] = self.decrypted
            for other in range(1, ranks):
                comm.Recv(self.result[self.blocks.of(other)], source=other, tag=other)
        else:
            comm.Ssend(self.decrypted, dest=0, tag=rank)
        comm.Barrier()

    def verify(self) -> Verification:
        """No byte of what was decrypted differs from the plain text."""
        if self.comm.Get_rank() != 0:
            return verdict()
        wrong = float(np.count_nonzero(self.plain != self.result))
        return verdict(("bytes that differ from the plain text", wrong, 0.0, wrong, 0.0))

    def operations(self) -> float:
        return 0.0  # JGF counts kilobytes
