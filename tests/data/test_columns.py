import torch

from lrga.data.packed.columns import Column


def test_rows_come_in_the_type_that_users_see():
    column = Column("node", torch.tensor([3, 4, 5], dtype=torch.uint8), torch.int64)
    taken = column.take(torch.tensor([2, 0]))
    assert taken.dtype == torch.int64
    assert taken.tolist() == [5, 3]


def test_graph_attributes_are_concatenated_as_pyg_does():
    shape_1 = Column("graph", torch.tensor([[1.0], [2.0]]), torch.float32)
    assert shape_1.take(slice(None)).shape == (2,)
    shape_1_3 = Column("graph", torch.zeros(2, 1, 3), torch.float32)
    assert shape_1_3.take(slice(None)).shape == (2, 3)
    scalar = Column("graph", torch.tensor([1.0, 2.0]), torch.float32)
    assert scalar.take(slice(None)).shape == (2,)


def test_a_column_moves_with_its_pointer():
    column = Column("list", torch.arange(3), torch.int64, ptr=torch.tensor([0, 1, 3]), dim=1, shift=True)
    moved = column.to(torch.device("meta"))
    assert moved.values.is_meta
    assert moved.ptr is not None
    assert moved.ptr.is_meta
    assert (moved.dim, moved.shift, moved.level) == (1, True, "list")
