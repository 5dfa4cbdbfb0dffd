"""The soak: many connections open, stream checksummed data, close and die at random, for minutes.

    python -m tests.soak --minutes 5 --connections 200

One server process and several client processes. Every client thread opens a connection, streams both ways, verifies
every byte and ends the connection in one of the ways that programs end them; now and then a whole client process is
killed and replaced. At the end, and in between, the server must hold the descriptors, the memory and the names that it
held before, and every stream must have been whole as far as its end allows.
"""
