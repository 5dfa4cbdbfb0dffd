"""An object here, its proxy there, and the session between the two ends.

session         what a connection does beside the path of every call
references      objects that go by reference, in both directions
proxy           objects that look like those of another process
exported        an object with its functions by number
serial          one call at a time
streams         generators, item by item

Tests: tests/rmi/test_references.py, test_serial.py, test_streams.py, test_calls.py.
"""
