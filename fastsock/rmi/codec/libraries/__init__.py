"""What travels of the libraries. `unregistered` calls the functions by name, when the first value of one is met.

standard        of Python's own
of_numpy        masked arrays, records
of_pandas       frames, series, indexes, by their arrays
of_pyarrow      arrays, tables, by their buffers
of_torch        tensors, by their memory

Each module imports its library. What a peer sent is checked by the library's own constructors, and here where these
check nothing. Tests: tests/rmi/test_values.py, test_library_values.py.
"""
