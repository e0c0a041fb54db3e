"""Processes started by ``torchrun``: joining their group, and noticing that one has stopped."""
