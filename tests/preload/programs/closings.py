"""A thread of C code sends on a number while another one closes its socket. A beginning of what was sent arrives."""

from __future__ import annotations

import ctypes
import os
import socket
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.send.restype = ctypes.c_ssize_t
CONNECTIONS, BLOCK = 60, 97
STREAM = b"".join(i.to_bytes(4, "big") for i in range(200_000))


def send_on(sock: socket.socket, number: int, warm: threading.Event) -> None:
    at = 0
    while at + BLOCK < len(STREAM) and sock.fileno() == number:  # else the number may be another file's
        count = libc.send(number, STREAM[at : at + BLOCK], ctypes.c_size_t(BLOCK), 0x4040)
        if count < 0 and ctypes.get_errno() != 11:
            return
        at += max(count, 0)
        if at > 2000 * BLOCK:
            warm.set()


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        address = listener.getsockname()
        listener.close()
        for _ in range(CONNECTIONS):
            sock = socket.create_connection(address)
            warm = threading.Event()
            sender = threading.Thread(target=send_on, args=(sock, sock.fileno(), warm))
            sender.start()
            warm.wait(30)
            sock.close()
            sender.join()
        raise SystemExit
    right = 0
    with listener:
        for _ in range(CONNECTIONS):
            stream, _ = listener.accept()
            with stream:
                at = 0
                while came := stream.recv(65536):
                    assert came == STREAM[at : at + len(came)], at
                    at += len(came)
                right += at > 0
    assert os.waitpid(child, 0)[1] == 0
    print(right)


main()
