"""What a program says of its classes.

interfaces          what can be called: marks, Protocols, and the tables that are made of them
introspection       what help(), signatures and completion show

It knows nothing of connections. Tests: tests/rmi/test_registering.py, test_introspection.py.
"""
