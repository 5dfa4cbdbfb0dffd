"""Message devices: how the ranks of a parallel program exchange messages.

Importing this package imports nothing else: the launcher of ranks starts with it.
"""
