"""Messages between two ranks, of memory and of objects, and the requests that stand for them."""
