# _segments.py is compiled as it is.
