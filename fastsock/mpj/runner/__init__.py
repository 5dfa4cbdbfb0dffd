"""The parts of `python -m fastsock.mpj.run`.

options, hosts, launch      a command line, a host file, and what they start
supervisor                  starts the ranks, serves their wire-up, ends all of them when one has failed
local, remote, threaded     ranks of this host, of others, and as threads
agent, wire                 the runner's hand on another host, and the messages between the two
output, stdin               the output and the input of ranks
spawned                     the runner of a job that a rank has spawned
aborting                    a rank whose uncaught exception ends all ranks
commands/                   mpiexec and mpirun, for the PATH of ranks

Below run and mpiexec. Tests: tests/mpj/test_run.py, test_host_files.py, test_mpiexec.py.
"""
