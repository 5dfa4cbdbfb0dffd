"""The system as it is, in a process that belongs to somebody else: its program, and whatever test tools that has.

Ground: every folder may import it, and it imports nothing but core.
"""
