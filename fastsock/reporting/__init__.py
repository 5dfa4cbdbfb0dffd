"""What fastsock tells about connections.

explanation    fastsock.explain() and fastsock.connections()
report         --stats
tracing        --trace

Above the socket class. Tests: tests/reporting.
"""
