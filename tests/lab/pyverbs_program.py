"""A program with queue pairs of pyverbs: one writes by RDMA into the memory of a RegisteredBuffer, which then goes on.

python pyverbs_program.py DEVICE GID_INDEX HOST PORT      a receiver of buffers listens there

Prints lines of JSON: what pyverbs tells of the device, and the digest of what was written each time.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time

from fastsock import attach, buffers, socket

sys.path.append("/usr/lib/python3/dist-packages")  # Debian's pyverbs, whichever Python of that version runs
import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

PIECE, PIECES, ROUNDS = 1 << 16, 4, 2
MAY_WRITE = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


def main(name: str, index: str, host: str, port: str) -> None:
    context = Context(name=name)
    gid = context.query_gid(1, int(index))
    limits = context.query_device()
    state = context.query_port(1).state == e.IBV_PORT_ACTIVE
    print(json.dumps({"gid": str(gid), "active": state, "regions": limits.max_mr, "queue_pairs": limits.max_qp}))
    domain = PD(context)
    queue = CQ(context, 16)
    ends = [QP(domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=QPCap(8, 8, 1, 1))) for _ in "ab"]
    for end, other in (ends, ends[::-1]):
        join(end, other, gid, int(index))
    source = MR(domain, PIECE * PIECES, e.IBV_ACCESS_LOCAL_WRITE)
    buffer = buffers.RegisteredBuffer(PIECE * PIECES)
    target = MR(domain, buffer.nbytes, MAY_WRITE, address=buffer.view("u1").ctypes.data)
    with socket.create_connection((host, int(port))) as sock:
        assert attach(sock, 60)
        for round_ in range(ROUNDS):  # registered once: the memory stays where it is while others have it
            data = random.Random(round_).randbytes(buffer.nbytes)
            source.write(data, len(data))
            for piece in range(PIECES):
                write(ends[0], source, target, piece * PIECE)
                wait(queue)
            assert memoryview(buffer) == data
            buffers.send_buffer(sock, buffer)
            buffer.wait(60)
            print(json.dumps({"digest": hashlib.sha256(data).hexdigest(), "reply": buffer.view("u1")[0].item()}))
    for one in (target, source, *ends, queue, domain, context):
        one.close()
    buffer.release()


def join(end: QP, other: QP, gid: object, index: int) -> None:
    """Makes `end` a reliable connection to `other`."""
    words = QPAttr(port_num=1)
    words.qp_access_flags = MAY_WRITE
    end.to_init(words)
    words.ah_attr = AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=index), is_global=1, port_num=1)
    words.dest_qp_num = other.qp_num
    words.path_mtu = e.IBV_MTU_1024
    words.max_rd_atomic = words.max_dest_rd_atomic = 1
    words.min_rnr_timer, words.timeout, words.retry_cnt, words.rnr_retry = 12, 14, 7, 7
    end.to_rtr(words)
    end.to_rts(words)


def write(end: QP, source: MR, target: MR, at: int) -> None:
    order = SendWR(num_sge=1, sg=[SGE(source.buf + at, PIECE, source.lkey)], opcode=e.IBV_WR_RDMA_WRITE)
    order.set_wr_rdma(target.rkey, target.buf + at)
    end.post_send(order)


def wait(queue: CQ) -> None:
    for _ in range(100_000):
        count, done = queue.poll()
        if count:
            assert done[0].status == e.IBV_WC_SUCCESS, done[0]
            return
        time.sleep(0)
    raise TimeoutError("no completion came")


if __name__ == "__main__":
    main(*sys.argv[1:])
