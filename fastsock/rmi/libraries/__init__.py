"""What travels of the libraries. `unregistered` calls the functions by name, when the first value of one is met.

standard        of Python's own
of_numpy        masked arrays, records

Each module imports its library. What a peer sent is checked by the library's own constructors, and here where these
check nothing. Tests: tests/rmi/test_values.py.
"""
