"""One end of a queue pair between two ranks, by pyverbs: the wire that fastsock/core/verbs/README.md describes.

Nothing of fastsock's own verbs code is used: the constants below are those of that page.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct
import sys
import time

sys.path.append("/usr/lib/python3/dist-packages")  # Debian's pyverbs, whichever Python of that version runs
import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

MAGIC = 0x02585642494B5346
ADDRESS = struct.Struct("=QIIIIHHI16sQII")
HEADER = struct.Struct("=iiII")  # source, destination, credits returned, length with this header
WORD = struct.Struct("=Q")
SEGMENT, CREDITS, RESERVED, PIECE = 8192, 64, 2, 1 << 20
PAYLOAD = SEGMENT - HEADER.size - WORD.size
READY = b"R"
PATIENCE = 100.0
OPEN = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


class Memory:
    """Memory of this process that the device knows."""

    def __init__(self, domain: PD, length: int, access: int = e.IBV_ACCESS_LOCAL_WRITE) -> None:
        self.bytes = mmap.mmap(-1, max(length, 1))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        self.region = MR(domain, len(self.bytes), access, address=self.address)

    def piece(self, at: int, length: int) -> SGE:
        return SGE(self.address + at, length, self.region.lkey)

    def close(self) -> None:
        self.region.close()


class Pair:
    """Bytes in order in both directions, and transfers between this memory and the other end's."""

    def __init__(self, device: str, gid_index: int, rank: int, peer: int, *, ring: bool) -> None:
        self.rank, self.peer = rank, peer
        self.context = Context(name=device)
        self.domain = PD(self.context)
        self.completions = CQ(self.context, 4 * CREDITS)
        capacity = QPCap(2 * CREDITS, CREDITS, 1, 1)
        kind = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.completions, rcq=self.completions, cap=capacity, sq_sig_all=1)
        self.queue = QP(self.domain, kind)
        self.gid_index = gid_index
        self.slots = Memory(self.domain, CREDITS * SEGMENT)
        self.receives = Memory(self.domain, CREDITS * SEGMENT, OPEN)  # or the ring, where both ends have one
        self.wants_ring, self.ring_there, self.ring_key = ring, 0, 0
        self.sent = self.in_flight = self.taken = self.owed = self.credits = 0
        self.came = bytearray()
        self.segments = self.returns = self.written = self.fetched = 0

    # ---- meeting, over the TCP connection that stays beside ----

    def meet(self, sock: socket.socket) -> None:
        """Both ends tell where their queue pairs are, then that they can receive."""
        port = self.context.query_port(1)
        gid = bytes.fromhex(str(self.context.query_gid(1, self.gid_index)).replace(":", ""))
        ring = (self.receives.address, self.receives.region.rkey) if self.wants_ring else (0, 0)
        number, sequence = self.queue.qp_num, 0x123456
        sock.sendall(
            ADDRESS.pack(MAGIC, self.rank, number, sequence, CREDITS, port.lid, port.active_mtu, 1, gid, *ring, 0)
        )
        there = ADDRESS.unpack(exactly(sock, ADDRESS.size))
        magic, rank, number, their_sequence, self.credits, _, mtu, is_global, gid, ring_there, ring_key, _ = there
        assert (magic, rank, is_global) == (MAGIC, self.peer, 1), there
        if self.wants_ring and ring_there:
            self.ring_there, self.ring_key = ring_there, ring_key
        words = QPAttr(port_num=1)
        words.qp_access_flags = OPEN
        self.queue.to_init(words)
        for slot in range(CREDITS if not self.ring_there else 0):
            self._post_receive(slot)
        words.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(_text(gid)), sgid_index=self.gid_index), is_global=1, port_num=1)
        words.dest_qp_num, words.rq_psn = number, their_sequence
        words.path_mtu = min(port.active_mtu, mtu)
        words.max_rd_atomic = words.max_dest_rd_atomic = 1
        words.min_rnr_timer, words.timeout, words.retry_cnt, words.rnr_retry = 12, 17, 7, 7
        self.queue.to_rtr(words)
        words.sq_psn = sequence
        self.queue.to_rts(words)
        sock.sendall(READY)
        assert exactly(sock, 1) == READY

    # ---- bytes ----

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), PAYLOAD):
            self.wait(lambda: self.credits > RESERVED and self.in_flight < CREDITS)
            self._segment(data[at : at + PAYLOAD])
            self.segments += 1

    def read(self, length: int) -> bytes:
        self.wait(lambda: len(self.came) >= length)
        data = bytes(self.came[:length])
        del self.came[:length]
        return data

    def transfer(self, opcode: int, memory: Memory, length: int, address: int, key: int) -> None:
        """The device writes to, or reads from, the other end's memory."""
        for at in range(0, length, PIECE):
            self.wait(lambda: self.in_flight < CREDITS)
            self._post(opcode, memory.piece(at, min(PIECE, length - at)), (address + at, key))
        self.flush()
        if opcode == e.IBV_WR_RDMA_READ:
            self.fetched += length
        else:
            self.written += length

    def flush(self) -> None:
        """All that was posted has arrived."""
        self.wait(lambda: self.in_flight == 0)

    def wait(self, is_done) -> None:
        until = time.monotonic() + PATIENCE
        while not is_done():
            if not self._poll():
                os.sched_yield()
            if time.monotonic() > until:
                raise TimeoutError(f"nothing more comes: {vars(self)}")

    def close(self) -> None:
        for each in (self.queue, self.completions, self.receives, self.slots, self.domain, self.context):
            each.close()

    # ---- segments ----

    def _segment(self, payload: bytes) -> None:
        slot = self.sent % CREDITS
        at, length = slot * SEGMENT, HEADER.size + len(payload)
        self.slots.bytes[at : at + length] = HEADER.pack(self.rank, self.peer, self.owed, length) + payload
        self.owed = 0
        self.credits -= 1
        self.sent += 1
        if not self.ring_there:
            self._post(e.IBV_WR_SEND, self.slots.piece(at, length))
            return
        end = at + SEGMENT - WORD.size
        self.slots.bytes[end : end + WORD.size] = WORD.pack(self.sent)
        self._post(e.IBV_WR_RDMA_WRITE, self.slots.piece(at, length), (self.ring_there + at, self.ring_key))
        self._post(e.IBV_WR_RDMA_WRITE, self.slots.piece(end, WORD.size), (self.ring_there + end, self.ring_key))

    def _post(self, opcode: int, piece: SGE, there: tuple[int, int] | None = None) -> None:
        order = SendWR(num_sge=1, sg=[piece], opcode=opcode)
        if there is not None:
            order.set_wr_rdma(there[1], there[0])
        self.queue.post_send(order)
        self.in_flight += 1

    def _post_receive(self, slot: int) -> None:
        self.queue.post_recv(RecvWR(wr_id=slot, num_sge=1, sg=[self.receives.piece(slot * SEGMENT, SEGMENT)]))

    def _poll(self) -> int:
        count, found = self.completions.poll(16)
        for one in found:
            assert one.status == e.IBV_WC_SUCCESS, one
            if one.opcode & e.IBV_WC_RECV:
                self._take(one.wr_id, one.byte_len)
                self._post_receive(one.wr_id)
            else:
                self.in_flight -= 1
        while self.ring_there and self._has_come(self.taken % CREDITS):
            self._take(self.taken % CREDITS, None)
            count += 1
        if self.owed >= CREDITS // 2 and self.credits > 0 and self.in_flight < CREDITS:
            self._segment(b"")
            self.returns += 1
        return count

    def _has_come(self, slot: int) -> bool:
        return WORD.unpack_from(self.receives.bytes, (slot + 1) * SEGMENT - WORD.size)[0] == self.taken + 1

    def _take(self, slot: int, came: int | None) -> None:
        at = slot * SEGMENT
        source, destination, credits, length = HEADER.unpack_from(self.receives.bytes, at)
        assert (source, destination) == (self.peer, self.rank)
        assert credits <= CREDITS
        assert HEADER.size <= length <= SEGMENT - WORD.size
        assert came in (None, length)
        self.came += self.receives.bytes[at + HEADER.size : at + length]
        self.credits += credits
        self.taken += 1
        self.owed += 1


def exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise EOFError("the other end closed its TCP connection")
        data += more
    return data


def _text(gid: bytes) -> str:
    return ":".join(gid[at : at + 2].hex() for at in range(0, 16, 2))
