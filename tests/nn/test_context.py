import threading

import pytest
import torch
from torch_geometric.data import Batch, Data

import lrga
from lrga.errors import BatchError, DTypeError
from lrga.nn import context


def test_contexts_nest_and_end():
    assert context.current() is None
    with lrga.batch_context(torch.tensor([0, 1])):
        with lrga.batch_context(None):
            assert context.current().batch is None
        assert context.current().batch.tolist() == [0, 1]
    assert context.current() is None


def test_a_context_ends_when_its_body_fails():
    with pytest.raises(RuntimeError, match="inside"), lrga.batch_context(None):
        raise RuntimeError("inside")
    assert context.current() is None


def test_a_context_belongs_to_its_thread():
    seen = []
    with lrga.batch_context(None):
        thread = threading.Thread(target=lambda: seen.append(context.current()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_pyg_batch_may_be_given_whole():
    data = Data(x=torch.ones(2, 1), edge_index=torch.empty(2, 0, dtype=torch.int64))
    with lrga.batch_context(Batch.from_data_list([data, data])):
        assert context.current().batch.tolist() == [0, 0, 1, 1]
        assert context.current().num_graphs == 2
    with lrga.batch_context(data):
        assert context.current().batch is None


def test_features_of_other_nodes_are_refused_with_a_hint():
    with lrga.batch_context(torch.tensor([0, 1])), pytest.raises(BatchError, match="2 nodes.*3 nodes.*pooling"):
        context.current().segments(torch.ones(3, 1))


def test_anything_but_a_batch_is_refused():
    with pytest.raises(DTypeError, match="list"):
        lrga.batch_context([0, 0, 1])


def test_the_layout_is_made_once_for_all_layers():
    assignment = context.Assignment(torch.tensor([0, 1, 1]))
    x = torch.ones(3, 1)
    assert assignment.segments(x) is assignment.segments(x)
