"""Typed arrays between two processes: no pickle, no copy of the whole.

python examples/arrays.py
"""

from __future__ import annotations

import multiprocessing

import numpy as np

from fastsock import socket


def produce(address: tuple[str, int]) -> None:
    matrix = np.arange(1_000_000, dtype=np.float64).reshape(1000, 1000)
    with socket.create_connection(address) as sock:
        sock.send_array(matrix)  # straight from the array's own memory
        sock.send_array(matrix[::2, 10:20])  # a slice is gathered on its way
        sock.send_array(matrix.astype(">f4").T)  # byte order and Fortran order travel too


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        producer = multiprocessing.Process(target=produce, args=(listener.getsockname(),))
        producer.start()
        sock, _ = listener.accept()
        with sock:
            print(f"path: {sock.transport}")
            out = np.empty((1000, 1000))
            sock.recv_array_into(out)  # into memory that is there already
            print(f"into memory of ours:  {out.dtype} {out.shape}, sum {out.sum():.0f}")
            for _ in range(2):
                array = sock.recv_array()
                print(f"a new array:          {array.dtype.str} {array.shape}, sum {array.sum(dtype=float):.0f}")
        producer.join()


if __name__ == "__main__":
    main()
