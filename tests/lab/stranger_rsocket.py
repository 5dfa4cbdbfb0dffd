"""A program of its own that connects by rsockets, says something, and tells how long it heard something.

python stranger_rsocket.py HOST PORT
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys


def main(host: str, port: str) -> None:
    library = ctypes.CDLL("librdmacm.so.1", use_errno=True)
    number = library.rsocket(socket.AF_INET, socket.SOCK_STREAM, 0)
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port)) + socket.inet_aton(host) + bytes(8)
    if library.rconnect(number, address, len(address)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    words = b"GET / HTTP/1.0\r\n\r\n" * 8
    library.rsend(number, words, len(words), 0)
    heard, room = 0, ctypes.create_string_buffer(4096)
    while (count := library.rrecv(number, room, len(room), 0)) > 0:
        heard += count
    print(heard, "bytes, then", "the end" if count == 0 else os.strerror(ctypes.get_errno()))
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
