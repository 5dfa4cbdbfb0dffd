"""The threads that serve connections.

workers     a pool: threads receive by turns, run what is called, and end when nothing comes
timers      what they do at a time
loops       event loops, told from any thread

Tests: tests/rmi/test_timers.py, test_closing.py, test_ctrl_c.py.
"""
