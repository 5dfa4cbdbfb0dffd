"""What managers.py is made of: pickles over fastsock's sockets.

connections     Listener and Client, as those of multiprocessing.connection
_answering      what a server does with each request of a client
_messages       whole messages over a socket

Tests: tests/rmi/test_managers.py, test_cpython_managers.py.
"""
