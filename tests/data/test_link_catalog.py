import pytest

from lrga.data.datasets.building import _builder
from lrga.data.datasets.catalog import dataset_facts
from lrga.data.datasets.link_catalog import LINK_CATALOG, link_name
from lrga.errors import OptionError
from lrga.models.link import LINK_SETS


def test_the_three_sets_of_table_2_are_known_with_their_published_sizes():
    assert list(LINK_CATALOG) == ["ogbl-ppa", "ogbl-collab", "ogbl-ddi"]
    assert tuple(LINK_CATALOG["ogbl-ddi"].splits.values()) == (1_067_911, 133_489, 133_489)
    assert tuple(LINK_CATALOG["ogbl-collab"].splits.values()) == (1_179_052, 60_084, 46_329)
    assert LINK_CATALOG["ogbl-ppa"].splits["train"] == 21_231_931
    for name, facts in LINK_CATALOG.items():
        assert facts.mean_nodes == LINK_SETS[name].num_nodes
        assert facts.files[0].url.startswith("https://")
        assert _builder(name).options() == {}


@pytest.mark.parametrize("name", ["ogbl-ddi", "OGBL-DDI", "ogbl_ddi"])
def test_spelling_does_not_matter(name):
    assert link_name(name) == "ogbl-ddi"
    assert dataset_facts(name).metric == "Hits@20"


def test_an_unknown_name_lists_the_link_sets_too():
    with pytest.raises(OptionError, match="ogbl-ppa, ogbl-collab, ogbl-ddi"):
        dataset_facts("ogbl-vessel")
