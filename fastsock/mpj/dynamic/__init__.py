"""Ranks of other jobs: spawned ones, and those that are met by a port.

calls               what communicators ask of this folder
spawning, child     a new job, and its runner (runner/spawned.py)
ports, opening      groups that meet by a port
port, line          where one listens, and the connection of two leaders
joining             two processes that have a connected socket
names               ports by the names of services
beside              waiting for what no message brings

How two groups come to a communicator is communicators/introduction.py; how one rank reaches another of another job is
xxdev/outside.py. Above communicators. Tests: tests/mpj/dynamic.
"""
