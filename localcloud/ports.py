"""Free ports of the loopback address."""

import socket

from localcloud.settings import HOST


def free_port() -> int:
    """A port that nobody listens on now; whoever is to listen should do so at once."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
