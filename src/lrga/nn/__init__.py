"""Layers: the attention module, what wraps it around other layers, and the convolutions of the paper."""
