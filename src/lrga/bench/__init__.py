"""The paper as data and as campaigns: its published numbers, its networks, its protocols."""
