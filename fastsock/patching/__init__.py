"""What is replaced in a running Python, and put back; and the descriptor numbers that it is replaced for.

Below the socket class, above connection/.
"""
