"""The system as it is, in a process that belongs to its program and to the program's test tools.

originals   the system's calls and its clock, also where test tools replaced them
other_systems  what it takes them from where the system is not Linux
forkable    locks that a forked child finds free
owned_descriptor  descriptors that the program does not know, and may close
starting    threads, where there may be none any more; which of them take signals
patience    waits of the main thread that any signal ends
together    a header and a long body as one send
delivering  the close of a TCP socket to which the other end still sends
pickles     Python's own pickle without its module
proof       both ends of a fresh connection prove that they know one key
user_key    the key that the processes of one user share
variables   the environment variables of all packages

Every layer may import it. It imports core alone. Tests: tests/system.
"""
