"""What other processes of this user do: `fastsock top`, and the numbers for monitoring systems (metrics/).

processes   which processes have fastsock, as /proc tells
shown       what each shows of itself (core/shown.h): its words are checked, what is dead is removed
kernel      the kernel's counts of all TCP connections here, by socket
work        a row for each rank and each daemon of remote objects, and what it did since the last look
rows        a row for each connection, and what it moved since the last look; with it, the others
view        which rows are shown, and in which order
table       rows for people, as text
live        the same, drawn anew each second

Nothing here asks a process for anything, so a process that is stopped or busy is seen as well.

Tests: tests/top.
"""
