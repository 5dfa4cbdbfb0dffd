"""The checks of the device suite, one module for each concept.

basics      ids, sends, receives, statuses
matching    which receive gets which message
modes       synchronous sends, eager, rendezvous, truncation, bounded memory
values      what can be sent, and what comes of it
waiting     probes, peek, tests, cancelling

Only fastsock.testing imports it. tests/xxdev/test_conformance.py runs it on every device.
"""
