"""Runs distributed's own tests in this process as run_pytest.py does, with the comm of fastsock in the place of tcp://.

Usage: run_dask.py PLAN.json. Its tests name tcp:// and the classes of distributed.comm.tcp. So these names are given
to fastsock's, except where FASTSOCK_TRANSPORTS is not set: then the tests run plain.
"""

import os
import sys
from pathlib import Path

import run_pytest


def _in_the_place_of_tcp():
    from distributed.comm import registry, tcp

    from fastsock.dask.backend import FastBackend
    from fastsock.dask.comm import FastComm
    from fastsock.dask.connecting import FastConnector
    from fastsock.dask.listening import FastListener

    class TCP(FastComm):
        def _read_extra(self):
            """distributed's TLS, which stays as it is, calls it by the name of this class."""

    class TCPConnector(FastConnector):
        prefix = "tcp://"
        comm_class = TCP

    class TCPListener(FastListener):
        prefix = "tcp://"
        comm_class = TCP

    class TCPBackend(FastBackend):
        _connector_class = TCPConnector
        _listener_class = TCPListener

    for replacement in (TCP, TCPConnector, TCPListener, TCPBackend):
        setattr(tcp, replacement.__name__, replacement)
    registry.backends["tcp"] = TCPBackend()


def main(plan_path):
    # the tests are within the package, with their certificates; the installed one holds neither
    sys.path.insert(0, str(Path(sys.prefix, "sources", "distributed")))
    if "FASTSOCK_TRANSPORTS" in os.environ:
        _in_the_place_of_tcp()
    run_pytest.main(plan_path)


if __name__ == "__main__":
    main(sys.argv[1])
