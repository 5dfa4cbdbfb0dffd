"""What lies in memory: datatypes, the buffers that calls name, operations on their elements."""
