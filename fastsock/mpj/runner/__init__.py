"""What `python -m fastsock.mpj.run` is made of."""
