"""Buffers that go from process to process without a copy. The face is fastsock/buffers.py.

    transfer        send_buffer and recv_buffer: what is said in the stream
    importer        the receiving side of a process: memory that others passed, and who owns it
    exporter        the owning side: links to other processes' importers, loans
    buffer, pool    RegisteredBuffer; several of one size
    errors          what can go wrong

The native core has the memory, the book of loans and the bytes of the protocol (core/registered). Tests:
tests/buffers, tests/core/registered.
"""
