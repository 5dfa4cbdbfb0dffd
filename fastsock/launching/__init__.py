"""Putting fastsock into programs that do not name it.

installation    fastsock.install() and uninstall()
children        the environment of child Pythons: it leads them to _bootstrap/
preloading      the environment of programs of any language: it leads them to the preloaded library
programs        what a program would get, as its file tells
options         Python's own options in a command line
inprocess       a program inside the launcher's process, where that cannot be replaced

Above the socket class, below the launcher. Tests: tests/launching.
"""
