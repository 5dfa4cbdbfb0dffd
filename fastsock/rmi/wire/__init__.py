"""One connection, both roles at once: from the bytes of a socket to calls, and back.

_flow                   the two ends of a stream, as far as each item passes them
_connection             what is called there: calls, their answers, the threads that wait for them
_serving, chains        what is called here; the calls on whose behalf a call is made
_sending, _receiving    frames to bytes, bytes to frames
_records, _locks        what is noted of a call; the locks of these
frames, _frames.pxd     how a frame looks
_vectorcall.pxd         how compiled methods take their arguments
hello, keys             the first bytes of both ends, by which they prove the key; whose it is
secured                 TLS

Tests: tests/rmi/test_calls.py, test_strangers.py, test_secured.py, test_hostile_frames.py, test_locks.py.
"""
