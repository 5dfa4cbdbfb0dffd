"""The connecting end: from an address to a proxy.

futures, _batching          future, within, batch, deadline; what a batch notes of each call
listing                     the daemons of this host, and what they say of themselves
awaiting                    waiting for a daemon
connecting, reconnect       connect(); the connections that one proxy makes, one after another
reaching                    from a host and a port to a session, in time
addresses                   what an address says, and names on this host

Tests: tests/rmi/test_connecting.py, test_awaiting.py, test_losses.py, test_time.py.
"""
