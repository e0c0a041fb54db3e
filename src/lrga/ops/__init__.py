"""Functions on tensors: the definitions of the operations, their fast versions, and the choice between them."""
