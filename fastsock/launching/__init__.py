"""Putting fastsock into programs that do not name it. Above the socket class."""
