"""Groups, communicators, topologies, sessions, and this rank's part of the job.

comm, intracomm, intercomm, topology    the handles; neighbourhood: the collective calls of those with a topology
communicator_record, topology_records   what they refer to; _records: natively, what a communicator's holds
declining                               what it has in the place of calls that it has not got
creation, topology_creation             how members agree on a new one; context_numbers: on its number
introduction                            how two groups come to an intercommunicator, also of several jobs
others, dynamic_calls                   the ranks of other jobs; what the folder `dynamic` does for communicators
group, session, errhandler              what the standard has beside communicators
named                                   names, hints and groups, of communicators, windows and files
world, lifecycle, options               this rank, its beginning and its end, and what `rc` chose

The top of mpj but for `MPI`. Tests: tests/mpj/test_communicators.py, test_groups.py, test_handles.py, test_options.py.
"""
