"""The accepting end: from a listener to an object.

daemon      objects by name, and the connections to them
naming      tells a name server of them
leases      what a client has back of a connection that was lost

Tests: tests/rmi/test_daemon.py, test_names.py, test_leases.py.
"""
