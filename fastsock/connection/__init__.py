"""One TCP connection as its program sees it, whatever carries its bytes.

Below patching/ and the socket class, above meeting/.
"""
