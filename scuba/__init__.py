"""What scuba touches: the network, the disk, harness processes, the person at the terminal."""

__version__ = "0.1.0"
