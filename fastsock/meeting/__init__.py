"""How two ends find each other beside TCP: of a connection that may take a path to another host, and by a user's names.

The connecting end reaches the other host by the path's own means before TCP connects. It says from which address and
port TCP will come. So the accepting end finds what belongs to a connection that it has accepted. How two ends on one
host find each other is the core's (core/switch/names.c).

remote                  both ends of a meeting with another host, which the path carries
near                    both ends of a meeting on this host, for a path of another author
presence, hello         what says that fastsock listens, and what both say then
joined                  what the meeting gives
waiting, history        how they wait, and what was learned of listeners
ports                   the port of a connection, before it is made
names                   the name of a connection that left TCP; addresses of this host
unix_calls              the kernel's calls in the abstract UNIX namespace
user_names, arrivals    names that processes of one user have, for what is above; waiting for one

Below connection and the socket class, above the paths. Tests: tests/meeting.
"""
