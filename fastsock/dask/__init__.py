"""A comm for dask: addresses `fastsock://host:port`, over the sockets of fastsock.

    DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME=fastsock dask scheduler
    LocalCluster(protocol="fastsock")

distributed finds it by its entry point. Nobody needs to import it, and nothing in fastsock does.

    backend      the entry point: addresses
    listening    the listener
    connecting   the connector
    comm         a message of dask to its frames and back, and errors as dask expects them
    stream       messages of frames over one socket, in an asyncio loop
    framing      how frames lie in the stream, and in memory

Each file stands on those below it. Tests: tests/dask; distributed's own: tests/suites/run.py --suite distributed.
"""
