"""What is told of connections. Above the socket class."""
