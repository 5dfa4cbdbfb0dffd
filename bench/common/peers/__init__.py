"""The ways that two processes can talk, one file a family, all with the methods of ``peer.Peer``."""
