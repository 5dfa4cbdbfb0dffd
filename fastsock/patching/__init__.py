"""Replaces functions in a running Python, and puts them back, so that descriptor numbers keep their meaning.

patches     replaces attributes so that they can be put back
descriptor_table  the descriptor numbers of fast connections
release     makes such a number the kernel's stream again, or a bridge
os_calls    os.read and its kin
passing     numbers that go to other processes: exec, subprocess, SCM_RIGHTS
detached    numbers that multiprocessing detaches
guards      puts os_calls and passing in force
polling     the pollers of `select` and the selectors, which know connections with memory

Below the socket class, above connection. Tests: tests/patching.
"""
