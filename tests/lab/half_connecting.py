"""A host that dies while it connects: it asks by the connection manager, and never says that it has the answer.

python half_connecting.py HOST PORT

It prints the number of each event that it gets. The last of them says that the other end has answered. Then it waits
until its standard input ends.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys

TCP_PORTS = 0x0106  # RDMA_PS_TCP
ANSWERED = 5  # RDMA_CM_EVENT_CONNECT_RESPONSE
RESOLVING_MS = 2000
RSOCKETS_VERSION = b"\x01" + bytes(39)  # what rsockets say about themselves: no credits, no memory


class Parameters(ctypes.Structure):
    _fields_ = [
        ("private_data", ctypes.c_char_p),
        ("private_data_len", ctypes.c_uint8),
        ("responder_resources", ctypes.c_uint8),
        ("initiator_depth", ctypes.c_uint8),
        ("flow_control", ctypes.c_uint8),
        ("retry_count", ctypes.c_uint8),
        ("rnr_retry_count", ctypes.c_uint8),
        ("srq", ctypes.c_uint8),
        ("qp_num", ctypes.c_uint32),
    ]


class Event(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_void_p),
        ("listen_id", ctypes.c_void_p),
        ("event", ctypes.c_int),
        ("status", ctypes.c_int),
    ]


library = ctypes.CDLL("librdmacm.so.1", use_errno=True)
library.rdma_create_event_channel.restype = ctypes.c_void_p
channel = ctypes.c_void_p(library.rdma_create_event_channel())
made = ctypes.c_void_p()


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def next_event() -> int:
    event = ctypes.POINTER(Event)()
    check(library.rdma_get_cm_event(channel, ctypes.byref(event)))
    kind, status = event.contents.event, event.contents.status
    library.rdma_ack_cm_event(event)
    print(kind, flush=True)
    assert status == 0, (kind, status)
    return int(kind)


def main(host: str, port: str) -> None:
    check(library.rdma_create_id(channel, ctypes.byref(made), None, TCP_PORTS))
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port)) + socket.inet_aton(host) + bytes(8)
    check(library.rdma_resolve_addr(made, None, address, RESOLVING_MS))
    next_event()
    check(library.rdma_resolve_route(made, RESOLVING_MS))
    next_event()
    asked = Parameters(RSOCKETS_VERSION, len(RSOCKETS_VERSION), 1, 1, 0, 7, 7, 0, 17)
    check(library.rdma_connect(made, ctypes.byref(asked)))
    while next_event() != ANSWERED:
        pass
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
