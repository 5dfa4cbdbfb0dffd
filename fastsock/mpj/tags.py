"""The tags of messages that no program sends: each kind has a range of its own in the collective context."""

from __future__ import annotations

APART = 1 << 31
"""Added to the contexts of a communicator: those of what goes on where it is revoked, and of its subgroups' making."""

TAGS = 1 << 29
"""Collective operations are told apart by their tag, a number below this one."""

CREATION = TAGS
"""First of as many tags that serve to create communicators from a part of the members."""

OBJECTS = 1 << 30
"""First of the tags of objects to and from a remote group."""

PARTITIONED = OBJECTS + TAGS
"""First of the tags that introduce partitioned sends to their receivers."""

PARTITIONED_TAGS = TAGS - 3
"""How many these are: the last three are others'."""

AGREEMENT = (1 << 31) - 3
"""Of the messages by which the members of a communicator agree on the number of a new one."""

NOBODYS = (1 << 31) - 2
"""No message has it: who probes for it only hears of ranks that failed."""

TEAM = (1 << 31) - 1
"""Of the messages about a team."""
