"""The names and signatures that users build on."""

import inspect

import pytest

import lrga

SIGNATURES = {
    "low_rank_attention": "(u, v, z, batch=None, num_graphs=None, *, cu_seqlens=None, eps=1e-06, backend='auto')",
    "LowRankGlobalAttention": "(in_channels, rank, *, heads=1, dropout=0.0, normalize='graph', qk_norm=False, "
    "gate=False, maps=None, eps=1e-06, backend='auto')",
    "LowRankGlobalAttention.forward": "(self, x, batch=None, num_graphs=None)",
    "LowRankGlobalAttention.factors": "(self, x, batch=None, num_graphs=None)",
    "LRGAConv": "(conv, in_channels, out_channels, rank, *, heads=1, skip=True, dropout=0.0, normalize='graph', "
    "qk_norm=False, gate=False, norm='batch_norm', act='relu', single_graph=False, backend='auto')",
    "LRGAConv.forward": "(self, x, edge_index, *args, batch=<from the context, else an error>, num_graphs=None, "
    "**kwargs)",
    "augment": "(module, rank, *, include=None, exclude=None, init='identity', **options)",
    "provide_batch": "(module)",
    "RandomFeatures": "(model, channels, *, distribution='normal', mode='concat', samples=1, resample=True, "
    "generator=None)",
    "batch_context": "(batch, num_graphs=None)",
    "tasks.metrics.weighted_accuracy": "(scores, labels, num_classes)",
    "tasks.metrics.mae": "(scores, targets)",
    "tasks.metrics.accuracy": "(scores, labels)",
    "tasks.metrics.f1_positive": "(scores, labels)",
    "tasks.metrics.hits_at_k": "(positive_scores, negative_scores, k)",
}


def signature_of(name):
    value = lrga
    for part in name.split("."):
        value = getattr(value, part)
    signature = inspect.signature(value)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_stays_as_it_is(name):
    assert signature_of(name) == SIGNATURES[name]


def test_every_public_name_can_be_reached():
    for name in lrga.__all__:
        assert getattr(lrga, name) is not None
    assert set(lrga.__all__) <= set(dir(lrga))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lrga.no_such_name


def test_loading_and_comparing_are_where_the_documents_say():
    assert list(inspect.signature(lrga.data.load).parameters)[:2] == ["name", "root"]
    assert list(inspect.signature(lrga.theory.distinguishes).parameters)[:3] == ["a", "b", "test"]


def test_every_module_is_exported_by_the_package_of_modules():
    """Each public class of a module under ``lrga/nn`` that is a torch module."""
    import importlib
    import pkgutil

    from torch import nn

    found = set()
    for info in pkgutil.iter_modules(lrga.nn.__path__):
        module = importlib.import_module(f"lrga.nn.{info.name}")
        for name, value in vars(module).items():
            is_ours = inspect.isclass(value) and issubclass(value, nn.Module) and value.__module__ == module.__name__
            if is_ours and not name.startswith("_"):
                found.add(name)
    internal = {"AugmentedConv", "LazyMix", "Stack"}  # made by augment, LRGAConv and the link networks
    assert found - internal <= set(lrga.nn.__all__)
    assert all(getattr(lrga.nn, name) is not None for name in lrga.nn.__all__)
