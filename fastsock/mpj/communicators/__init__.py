"""Who talks with whom: groups, communicators, topologies, sessions, and this rank's part of the job."""
