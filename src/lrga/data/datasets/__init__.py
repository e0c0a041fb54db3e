"""The data sets known by name: facts, builders, and what is built on disk."""
