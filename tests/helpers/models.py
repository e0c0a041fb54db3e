"""Small models, each a class of its own made of its parts and its forward."""

from torch import nn


def model_of(forward, **parts):
    """A module with these attributes whose ``forward`` is the function given, ``self`` included."""
    model = type("Model", (nn.Module,), {"forward": forward})()
    for name, part in parts.items():
        setattr(model, name, part)
    return model
