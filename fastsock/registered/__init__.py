"""Buffers that go from process to process without a copy. The face is fastsock/buffers.py.

    transfer        send_buffer and recv_buffer: what is said in the stream
    desk            the receiving side of a process: memory that others passed, and who owns it
    lending         the owning side: links to other processes' desks, loans
    buffer, pool    RegisteredBuffer; several of one size
    errors          what can go wrong

The native core has the memory, the book of loans and the bytes of the protocol (core/registered). Tests:
tests/buffers, tests/core/registered.
"""
