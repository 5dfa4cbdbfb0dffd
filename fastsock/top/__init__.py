"""What other processes of this user do: `fastsock top`, and the numbers for monitoring systems (metrics/).

processes   which processes have fastsock, as /proc tells
shown       what each shows of its connections (core/shown.h): its words are checked, what is dead is removed
kernel      the kernel's counts of all TCP connections here, by socket
rows        both together: a row for each connection, and what it moved since the last look
table       rows for people: sorted, filtered, as text

Nothing here asks a process for anything, so a process that is stopped or busy is seen as well.

Tests: tests/top.
"""
