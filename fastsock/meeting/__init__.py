"""How two ends on one host find each other, beside TCP: names in the abstract UNIX namespace.

A listener's presence says that fastsock listens at an address. A connecting end that finds it offers a name made
from its connection's ports, and sends its SYN. The accepting end connects back to that name. A token travels with the
hello, and one of the two takes it: the connecting end by joining, or the accepting end by giving up. So both ends get
the same path whatever dies or stalls. The TCP connection carries no byte of the meeting.

Two processes that met before need no talk. The connecting end reserves memory before its SYN: that is the token, and
the accepting end takes it alone. The connecting end learns of it when its program first uses the socket.

Where a bare stream carries the bytes (unix), the two ends need no talk either. The accepting end makes the stream, and
passes one side over its connection to the offered name. That connection is the token: a connecting end that withdraws
its offer lets the kernel refuse connections to that name, and then looks whether one has come.

The connecting end goes ahead (custody) where the accepting end has not accepted yet, or may not be waited for. The
accepting end then connects back to another name and gets its side of the connection. It joins by a one-byte answer.

DESIGN: the namespace is private to a network namespace. That is exactly the scope in which an address means one
listener.

names, presence         the names, and those of listeners
offer, answer           the connecting end, and the accepting end
remote                  both ends of a meeting with another host, which the path carries
near                    both ends of a meeting on this host, for a path of another author (FASTSOCK_UPGRADE=1)
hello, joined           what they say, and what the meeting gives
waiting, unix_calls     how they wait, and the kernel's calls
user_names, arrivals    names that processes of one user have, for what is above; waiting for one
custody                 going ahead of a server that has not accepted
history                 what was learned of listeners
ports                   the port of a connection, before it is made

Below connection and the socket class, above the paths. Tests: tests/meeting.
"""
