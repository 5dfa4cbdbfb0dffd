"""Files that several ranks read and write.

file, calls         the public class, and the part of it that moves data
opening             how the members of a communicator open a file together
open_file           the record of an open file: what its calls do
two_phases          collective access through a few of the members, for file systems between hosts
pointers            the pointer that all members share
background          accesses that go on by themselves
view                which bytes of the file a member sees, and how its items stand there
representations     how numbers stand in a file: native, external32, a program's own
system_errors       errors of the system, said as the standard's error classes
_direct             natively: what each access looks at, and the calls that programs make most
_transfer           natively: data between memory and the places of a view

Above windows, on which the shared pointer stands. Tests: tests/mpj/files.
"""
