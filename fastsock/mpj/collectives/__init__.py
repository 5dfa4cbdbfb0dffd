"""Collective operations: one file per primitive, with every algorithm for it side by side.

`table` chooses among them, `exchange` is what they are written on, `forms` how they are called.
"""
