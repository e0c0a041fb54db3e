"""Tensors in, tensors out: the attention's formula, its fast forms, and the choice between them."""
