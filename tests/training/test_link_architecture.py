import pytest

from lrga.errors import CheckpointError
from lrga.models.budget import count_of
from lrga.training.options import make_config
from lrga.training.problems.link_architecture import LinkArchitecture, resolve_link

COUNTS = {
    ("ogbl-ddi", "gcn", True): 1_576_081, ("ogbl-collab", "gcn", True): 1_069_489, ("ogbl-ppa", "gcn", True): 814_249,
    ("ogbl-ddi", "gcn", False): 1_289_985, ("ogbl-collab", "graphsage", False): 460_289,
    ("ogbl-ppa", "gcn", False): 278_529, ("ogbl-ddi", "node2vec", False): 645_249,
}  # fmt: skip


@pytest.mark.parametrize(("dataset", "model", "lrga"), COUNTS)
def test_a_run_has_exactly_the_published_number_of_parameters(dataset, model, lrga):
    network = resolve_link(make_config(dataset, model=model, lrga=lrga))
    assert count_of(network.build) == COUNTS[dataset, model, lrga]
    assert LinkArchitecture.from_json(network.to_json()) == network


def test_unknown_and_missing_numbers_are_refused():
    values = resolve_link(make_config("ogbl-ddi")).to_json()
    with pytest.raises(CheckpointError, match="colour"):
        LinkArchitecture.from_json(values | {"colour": "red"})
    del values["skip"]
    with pytest.raises(CheckpointError, match="skip"):
        LinkArchitecture.from_json(values)
