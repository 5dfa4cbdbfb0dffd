"""One-sided communication: windows, through which ranks reach each other's memory.

win                 the public class
formation           how the members form a window, and which kind it is; shared: memory that all have
served              the kind that goes by messages
origin              what an origin sends, and hears
server, lock_table  what is done at the target
_serving            natively: which thread does it
frames              what an origin says to a server
exposed             the memory of a member, and what is done to it
operations          operations under way
window_record       what every kind of window has
epochs              which calls may be made now
target              where at the target an operation works
_exported           natively: a window as a buffer

Above communicators. Tests: tests/mpj/windows.
"""
