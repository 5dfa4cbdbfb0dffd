"""How two ends on one host find each other, beside TCP: names in the abstract UNIX namespace.

A listener's presence says that fastsock listens at an address. A connecting end that finds it offers a name made
from its connection's ports, sends its SYN, and the accepting end connects back to that name. Who takes the token
that travels with the hello decides: the connecting end by joining, or the accepting end by giving up. So both end up
on the same path whatever dies or stalls, and no byte of this is ever seen on the TCP connection.

Two processes that met before need no talk: what the connecting end reserved before its SYN is the token, which the
accepting end takes alone. The connecting end learns of it when its program first uses the socket.

Where the accepting end has not even accepted, or may not be waited for, the connecting end goes ahead (custody):
the accepting end connects back to another name, is handed its side, and its one byte in answer is its joining.

DESIGN: the namespace is private to a network namespace, exactly the scope in which an address means one listener.

names, presence         the names, and those of listeners
offer, answer           the connecting end, and the accepting end
hello, joined           what they say, and what the meeting gives
waiting, unix_calls     how they wait, and the kernel's calls
custody                 going ahead of a server that has not accepted
history                 what was learned of listeners
ports                   the port of a connection, before it is made

Below connection and the socket class, above the paths. Tests: tests/meeting.
"""
