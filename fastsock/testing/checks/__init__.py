"""One module for each concept of the stream contract; every `check_...` in it takes a PairMaker."""
