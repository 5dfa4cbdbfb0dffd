"""Putting fastsock into programs that do not name it.

installation    fastsock.install() and uninstall()
children        the environment of child Pythons: it leads them to _bootstrap/
inprocess       a program inside the launcher's process, where that cannot be replaced

Above the socket class, below the launcher. Tests: tests/launching.
"""
