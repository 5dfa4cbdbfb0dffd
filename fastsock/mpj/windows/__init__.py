"""One-sided communication: windows, through which ranks reach each other's memory.

win, calls          the public class, and the part of it that reaches the members
formation           how the members form a window, and which kind it is
direct, _direct     the kinds whose origins do all by themselves, in general and natively; sharing: how they come to
mapped              such a window whose members map one memory
created, apart      such a window of a program's own memory, in the processes of its members
served              the kind that goes by messages
near                the members on this host of such a window, whose memory the origin reaches itself
origin              what an origin sends, and hears
server, lock_table  what is done at the target
_serving            natively: which thread does it
frames              what an origin says to a server
exposed             the memory of a member, and what is done to it
operations          operations under way
window_record       what every kind of window has
_epochs             which calls may be made now
target              where at the target an operation works
_exported           natively: a window as a buffer

Above communicators. Tests: tests/mpj/windows.
"""
