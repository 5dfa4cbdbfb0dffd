"""The system as it is, in a process that belongs to somebody else: its program, and whatever test tools that has.

genuine     the system's calls and its clock, whatever stands in their place
forkable    locks that a forked child finds free
hidden      descriptors that the program knows nothing of, and may close

Everybody may import it; it imports core alone. Tests: tests/system.
"""
