"""How a frame looks: a header of 16 bytes, the body, the segments.

    offset bytes field                                                   all little-endian
    0      4     bytes of the body, the lengths of the segments included
    4      1     kind
    5      1     flags
    6      2     number of segments
    8      4     number of the call: the caller's thread in the highest byte, a count in the others
    12     2     number of the object
    14     2     number of the method

The body is packed values, then the length of each segment (8 bytes each). A segment is the memory of one large buffer;
it follows the body. The flags say which values stand before the arguments.
`_frames.pxd` has the numbers that compiled code needs; a test compares them.
"""

from __future__ import annotations

from struct import Struct

HEADER_BYTES = 16
HEADER = Struct("<IBBHIHH")
LENGTH_BYTES = 8

# kinds
CALL = 1  # arguments                       a RESULT or an ERROR with the call's number follows
ONEWAY = 2  # arguments                     nothing follows
RESULT = 3  # a value
ERROR = 4  # exception or None, its class's name, its text, its traceback
CANCEL = 5  # nothing                       nobody waits for this call any more
ITEM = 6  # one item of a stream            `call` is the number of the stream
CREDIT = 7  # items, bytes                  what the reader of a stream has room for
END = 8  # nothing, or as ERROR             the stream is over
CLOSE = 9  # nothing                        the reader of a stream leaves it
RELEASE = 10  # numbers and counts          references that this end has let go
GOODBYE = 11  # nothing                     this end closes: all that came before was sent whole
BATCH = 12  # object, method, arguments, keywords of each call        one RESULT: True, value or False, error of each

# flags
DEADLINE = 1  # the seconds that are left stand first (a float)
BEHALF = 2  # then the number of the receiver's call that this one is made for
KEYWORDS = 4  # a dict of keyword arguments stands behind the arguments
STREAM = 8  # of a RESULT: the value is a stream, and its number is the call's
FREE = 16  # of a CALL: later calls of its thread need not wait until it has returned
CHAIN = 32  # then the calls on whose behalf this one is made (chains.py). Version 1 does not know it
LASTING = 64  # of a CALL: the stream that it gives must be over at its deadline, too

# of the daemon itself
DAEMON = 0
FIRST_OBJECT = 1
MOST_OBJECTS = 0xFFFF

# what the reader of a stream has room for at first
WINDOW = 256  # items
WINDOW_BYTES = 4 << 20

MOST_BODY = 0xFFFFFFFF
DEFAULT_FRAME_LIMIT = 1 << 30
