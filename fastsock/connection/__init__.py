"""One TCP connection as its program sees it, whatever carries its bytes.

registry       what this process knows of its connections: the path of each, and why
connecting     whether a connection that is about to be made may leave TCP
pending        those whose meeting is under way
fallback       those that stay on TCP, which must cost nothing extra: natively in _fallback
tcp_options    what a connection that left TCP answers about TCP's options
foreign        modules whose C code reads and writes the number
engine_socket  what an engine that takes a connection over asks of its socket

Below patching and the socket class, above meeting. Tests: tests/connection.
"""
