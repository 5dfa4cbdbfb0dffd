"""Servers that are killed under load: redis, nginx's workers, PostgreSQL's backends, and a server in Python.

    python -m tests.soak.programs --kills 1000 --program redis nginx postgres mixed

The server and its clients run with what `fastsock run` gives them. Each client checks every byte of every answer; the
answers have numbers. A client whose server was killed must see the end of the stream or an error. A client whose
server was not killed must see neither. Nobody may wait for ever. In between servers are stopped and go on, fork, and
read their settings again; and clients are killed, too. Some clients, and the workers of the server in Python, have the
class and the library in one process, and use one descriptor by both, call by call.
"""
