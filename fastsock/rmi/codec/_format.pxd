# The bytes of packed values.
#
# A value is one byte, its tag, then what the tag says. All numbers are little-endian. A *length* is one byte up to 252;
# 253, 254 and 255 are followed by 2, 4 and 8 bytes.
#
#     00..3F  the integers 0 to 63                 80..9F  a string of 0 to 31 bytes of UTF-8
#     40..7F  the tags below                       A0..AF  a tuple of 0 to 15 items
#                                                  B0..BF  a list of 0 to 15 items
#                                                  C0..DF  an object of the class 0 to 31
#                                                  E0..EF  a dict of 0 to 15 items
#                                                  F0..FF  the integers -16 to -1
#
# A body is a byte of flags, the values, and its end. The end is read first: the lengths of the segments (8 bytes each:
# 7 of the length, 1 of the kind of memory) and, where a flag says so, before them the descriptions of classes and their
# length (4 bytes). So all that a receiver must know of a class is known before a value is built.
#
# Lists, dicts, sets, bytearrays, arrays and objects are numbered when they begin, tuples, frozensets and whatever is made
# of its parts when it ends; empty tuples have no number. AGAIN is the number of one that came before. A tuple that
# holds itself through another is packed a second time inside itself: RECURSIVE stands before the outer one, whose value
# is thrown away, and the number of the inner one after it.

# flags of a body
cdef enum:
    DESCRIPTIONS = 1
    REPEATS = 4  # a value comes again: values are numbered
    FORGET = 2  # classes described before: each frame describes its own

# kinds of memory that a segment is received into
cdef enum:
    MEMORY = 0
    BYTES_OBJECT = 1
    BYTEARRAY_OBJECT = 2

# sizes
cdef enum:
    SCRATCH = 4096  # bytes of it to begin with
    KEPT_SCRATCH = 1 << 20  # a larger one is given back after its frame
    SPARE = 40  # free bytes of the scratch before each value: what the longest fixed form takes
    SEGMENT = 4096  # a buffer of so many bytes goes from where it lies
    STR_SEGMENT_FROM = 1 << 16  # a string is encoded first, so it gains less
    WORD = 8  # bytes of the length of a segment
    SIZE_BITS = 56  # of which are its size; the rest is its kind

# limits
cdef enum:
    DEEPEST = 1000  # nested values: what the C stack bears
    MOST_CLASSES = 4096  # that a peer may describe
    MOST_CACHED = 4096  # values that either end keeps

# in place of a number
cdef enum:
    NEW = -1
    OPEN = -2  # is being packed by its own function

# of the type of an array
cdef enum:
    FORTRAN = 0x80

# tags
cdef enum:
    NONE = 0x40
    FALSE = 0x41
    TRUE = 0x42
    INT16 = 0x43
    INT32 = 0x44
    INT64 = 0x45
    BIG_INT = 0x46  # length, two's complement
    FLOAT = 0x47
    COMPLEX = 0x48
    STR = 0x49  # length, UTF-8 (surrogates too)
    STR_SEGMENT = 0x4A
    BYTES = 0x4B  # length, bytes
    BYTES_SEGMENT = 0x4C
    BYTEARRAY = 0x4D
    BYTEARRAY_SEGMENT = 0x4E
    TUPLE = 0x4F  # length, items
    LIST = 0x50
    DICT = 0x51  # length, key, value, ...
    SET = 0x52
    FROZENSET = 0x53
    RANGE = 0x54  # start, stop, step as values
    SLICE = 0x55
    ELLIPSIS = 0x56
    NOT_IMPLEMENTED = 0x57
    AGAIN = 0x58  # length: the number
    RECURSIVE = 0x59  # a tuple, length: the number
    DATETIME = 0x5A  # 2 year, month, day, hour, minute, second, 4 microsecond (bit 31: fold), a value: the zone
    DATE = 0x5B  # 2 year, month, day
    TIME = 0x5C  # hour, minute, second, 4 microsecond (bit 31: fold), a value: the zone
    TIMEDELTA = 0x5D  # 4 days, 4 seconds, 4 microseconds
    TIMEZONE = 0x5E  # a tuple: offset, perhaps name
    UTC = 0x72
    ZONE = 0x5F  # a string: the key of zoneinfo
    DECIMAL = 0x60  # length, ASCII
    FRACTION = 0x61  # numerator, denominator as values
    UUID = 0x62  # 16 bytes, 1 is_safe
    PATH = 0x63  # kind, a string
    TYPED_ARRAY = 0x64  # array.array: type code, item size, order, BYTES or BYTES_SEGMENT
    VIEW = 0x65  # memoryview: a tuple of format, shape, whether it is read-only; BYTEARRAY, BYTES or their segment
    ARRAY = 0x66  # numpy: type (bit 7: Fortran order), number of dimensions, a length each, memory
    ARRAY_SEGMENT = 0x67
    ARRAY_DESCRIBED = 0x68  # numpy: length, the header of array_format, memory
    ARRAY_DESCRIBED_SEGMENT = 0x69
    SCALAR = 0x6A  # numpy: an array without dimensions
    DTYPE = 0x6B  # numpy: length, the header of array_format of an empty array
    EXCEPTION = 0x6C  # builtin: name, arguments, state, cause as values
    OBJECT = 0x6D  # length: the number of the class
    NEW_CACHED = 0x6E  # length: the place; an object
    CACHED = 0x6F  # length: the place
    REFERENCE = 0x70  # a tuple that `references` understands
    PICKLE = 0x71  # length, bytes

# how the instances of a class travel, as values.py has them
cdef enum:
    FIELDS = 0
    TUPLE_CLASS = 1
    MEMBERS = 2
    FLAGS = 3
    STATE = 4
    RAISED = 5
    FILLED = 6
