"""Receives with SO_RCVTIMEO while memory was offered and nobody takes it: timeouts.py class|number

The offer is withdrawn in one of them. Each ends by its time, and none before.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys
import time

LIMIT = 0.02
libc = ctypes.CDLL(None, use_errno=True)


def receive(sock: socket.socket, way: str) -> int:
    """The errno."""
    if way == "number":
        room = ctypes.create_string_buffer(1)
        return ctypes.get_errno() if libc.recv(sock.fileno(), room, ctypes.c_size_t(1), 0) < 0 else 0
    try:
        sock.recv(1)
    except OSError as error:
        return error.errno or 0
    return 0


def main(way: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, int(LIMIT * 1e6)))
    for _ in range(3):
        for one, other in ((near, far), (far, near)):
            one.send(b"x")
            other.recv(1)
    for count in range(70):
        began = time.monotonic()
        assert receive(near, way) == errno.EAGAIN
        assert time.monotonic() - began >= LIMIT, f"receive {count} ended too early"


main(*sys.argv[1:])
