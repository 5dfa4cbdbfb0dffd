"""An object on another host, found by a name server, over TLS where a certificate is given.

On one host, that of the names:   python -m fastsock.rmi.names --listen 0.0.0.0:6226
On the host of the object:        FASTSOCK_RMI_NAMES=HOST:6226 python examples/remote_two_hosts.py serve [CERTIFICATE]
On any other:                     FASTSOCK_RMI_NAMES=HOST:6226 python examples/remote_two_hosts.py call [AUTHORITY]

All need one key: copy ~/.config/fastsock/rmi.key, or set FASTSOCK_RMI_KEY to a secret of 16 characters or more.
CERTIFICATE: a PEM file with the certificate and its key. AUTHORITY: the PEM file of who signed it. Without them nothing
is encrypted.
"""

from __future__ import annotations

import ssl
import sys

import numpy as np
from numpy.typing import NDArray

from fastsock import rmi


@rmi.expose
class Matrices:
    def product(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        return a @ b


def serve(certificate: str | None) -> None:
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    with rmi.Daemon(("0.0.0.0", 0), ssl=context) as daemon:
        daemon.register(Matrices(), "example-matrices", metadata={"example": True})
        print(f"serving at {daemon.address}")
        daemon.serve()


def call(authority: str | None) -> None:
    context = ssl.create_default_context(cafile=authority) if authority is not None else None
    with rmi.closing(rmi.connect("rmi:example-matrices", Matrices, timeout=10.0, ssl=context)) as matrices:
        print(matrices.product(np.eye(3) * 2, np.ones((3, 3))))


def main() -> None:
    commands = {"serve": serve, "call": call}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    commands[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    main()
