"""One TCP connection as its program sees it, whatever carries its bytes.

registry       the connections of this process, the path of each, and the reason
elsewhere      which connections may take a path to another host, or of another author
opening        sockets that a path opens in place of TCP's
channel_calls  the data calls of a socket that has left TCP
tcp_options    answers about TCP's options, for a connection that left TCP
foreign        finds modules whose C code reads and writes the number
carriers       connections that stay TCP and gain memory: what the core knows of each
watchers       who watches their numbers unseen
standing_in    what makes a class and its module stand in for the standard ones
without_core   the class of a process without the native core: plain TCP
engine_socket  the interface through which an engine takes a connection over

Below patching and the socket class, above meeting. Tests: tests/connection.
"""
