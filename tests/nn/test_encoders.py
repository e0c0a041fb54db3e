import pytest
import torch

from lrga.errors import DataError, DTypeError, OptionError, ShapeError
from lrga.models.gnn import GNN
from lrga.nn.encoders import CategoriesEncoder, CategoryEncoder, LinearEncoder, _LookUp, look_up


def test_categories_are_embedded_with_or_without_a_second_axis():
    encoder = CategoryEncoder(5, 3)
    x = torch.tensor([0, 4, 2])
    assert torch.equal(encoder(x), encoder.embedding.weight[x])
    assert torch.equal(encoder(x[:, None].to(torch.uint8)), encoder(x))
    assert torch.equal(encoder(encoder.ones(2)), encoder.embedding.weight[[1, 1]])


def test_several_columns_of_categories_are_embedded_one_by_one_and_added():
    encoder = CategoriesEncoder([4, 1, 3], 5)
    x = torch.tensor([[3, 0, 2], [0, 0, 0], [3, 0, 1]], dtype=torch.uint8)
    tables = encoder.embedding.weight.split([4, 1, 3])
    expected = sum(table[x[:, column].long()] for column, table in enumerate(tables))
    torch.testing.assert_close(encoder(x), expected)
    assert encoder(x[:0]).shape == (0, 5)
    assert torch.equal(encoder(encoder.ones(2)), encoder(torch.zeros(2, 3, dtype=torch.int64)))
    encoder(x).sum().backward()
    assert encoder.embedding.weight.grad[:, 0].tolist() == [1, 0, 0, 2, 3, 1, 1, 1]
    assert set(encoder.state_dict()) == {"embedding.weight"}


@pytest.mark.parametrize("sizes", [[], 7, [3, 0], None])
def test_the_sizes_of_the_columns_are_checked(sizes):
    with pytest.raises(OptionError):
        CategoriesEncoder(sizes, 3)


def test_a_network_reads_categories_of_atoms_and_bonds():
    model = GNN((9, 4), 8, 1, 2, conv="gatedgcn", rank=4, task="graph", encoder="embeddings",
                edge_encoder="embeddings", edge_channels=(3, 2)).eval()  # fmt: skip
    x, bonds = torch.tensor([[8, 3], [0, 0], [1, 2]]), torch.tensor([[2, 1], [0, 0], [1, 1]])
    edge_index = torch.tensor([[0, 2, 1], [1, 1, 0]])
    out = model(x, edge_index, bonds)
    assert not torch.equal(model(x, edge_index, bonds.flip(0)), out)
    assert model(x, edge_index).shape == (1, 1)


def test_the_gradient_of_a_look_up_is_that_of_an_embedding():
    index, weight = torch.tensor([2, 0, 2, 2, 3]), torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(5, 3, dtype=torch.float64)
    rows = _LookUp.apply(index, weight)
    usual = torch.nn.functional.embedding(index, weight)
    assert torch.equal(rows, usual)
    ours, theirs = (torch.autograd.grad(result, weight, upstream)[0] for result in (rows, usual))
    torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradgradcheck(lambda w: _LookUp.apply(index, w), weight)


@pytest.mark.gpu
@pytest.mark.parametrize("categories", [3, 256, 300])
def test_a_look_up_on_a_gpu_has_the_gradient_of_the_cpu(categories):
    table, index = torch.nn.Embedding(categories, 40), torch.randint(categories, (5000,))
    upstream = torch.randn(5000, 40)
    (usual,) = torch.autograd.grad(table(index), table.weight, upstream)
    table.cuda()
    for _ in range(2):
        rows = look_up(table, index.cuda())
        assert ("LookUp" in type(rows.grad_fn).__name__) == (categories <= 256)
        (ours,) = torch.autograd.grad(rows, table.weight, upstream.cuda())
        torch.testing.assert_close(ours.cpu(), usual, rtol=1e-4, atol=1e-4)
    for other in (torch.nn.Embedding(3, 4, padding_idx=0), torch.nn.Embedding(3, 4, max_norm=1.0)):
        rows = look_up(other.cuda(), torch.zeros(5000, dtype=torch.int64, device="cuda"))
        assert "LookUp" not in type(rows.grad_fn).__name__


def test_real_features_are_mapped_linearly():
    encoder = LinearEncoder(2, 3)
    x = torch.randn(4, 2)
    torch.testing.assert_close(encoder(x), x @ encoder.lin.weight.t() + encoder.lin.bias)
    one = LinearEncoder(1, 3)
    assert torch.equal(one(x[:, 0]), one(x[:, :1]))
    assert torch.equal(one.ones(2), torch.ones(2, 1))
    assert encoder(x.double()).dtype == torch.float32


REFUSED = [
    (CategoryEncoder(5, 3), torch.tensor([5]), DataError, "between 0 and 4"),
    (CategoryEncoder(5, 3), torch.tensor([-1]), DataError, "category -1"),
    (CategoryEncoder(5, 3), torch.tensor([0.5]), DTypeError, "linear encoder"),
    (CategoryEncoder(5, 3), torch.zeros(3, 2, dtype=torch.int64), ShapeError, r"\[3, 2\]"),
    (CategoriesEncoder([4, 2], 3), torch.tensor([[3, 2]]), DataError, "between 0 and 1 in column 1"),
    (CategoriesEncoder([4, 2], 3), torch.tensor([[-1, 0]]), DataError, "category -1"),
    (CategoriesEncoder([4, 2], 3), torch.tensor([[0.5, 1.0]]), DTypeError, "linear encoder"),
    (CategoriesEncoder([4, 2], 3), torch.zeros(3, dtype=torch.int64), ShapeError, r"\[N, 2\]"),
    (LinearEncoder(2, 3, name="edge_attr"), torch.randn(3, 4), ShapeError, r"\[N, 2\]"),
    (LinearEncoder(2, 3, name="edge_attr"), torch.randn(3), ShapeError, "edge_attr"),
    (LinearEncoder(2, 3, name="edge_attr"), torch.ones(3, 2, dtype=torch.int64), DTypeError, "embedding"),
]


@pytest.mark.parametrize(("encoder", "x", "error", "says"), REFUSED)
def test_wrong_features_are_refused_with_a_remedy(encoder, x, error, says):
    with pytest.raises(error, match=says):
        encoder(x)
