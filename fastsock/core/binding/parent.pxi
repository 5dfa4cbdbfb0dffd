# This process and the one that started it.
cdef extern from "<sys/prctl.h>":
    int prctl(int option, unsigned long number)
    int PR_SET_PDEATHSIG


def end_with_parent(int number):
    """The kernel sends this process that signal when the thread that started it ends. Raises OSError."""
    if prctl(PR_SET_PDEATHSIG, <unsigned long>number) != 0:
        checked(-last_error)
