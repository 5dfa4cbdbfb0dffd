"""Putting fastsock into programs that do not name it.

installation    fastsock.install() and uninstall()
children        the environment that child Pythons find; _bootstrap/ is what it leads them to
inprocess       a program inside the launcher's process, where that cannot be replaced

Above the socket class, below the launcher. Tests: tests/launching.
"""
