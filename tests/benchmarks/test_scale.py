"""The benchmark of growth times nothing that is wrong, and its exponent is one."""

import pytest
import scale

from lrga.speed.record import make_record


def test_every_method_is_measured_on_every_size_or_says_why_not():
    rows, settings = scale.run_all("cpu", [300, 900], 1, 30.0, lambda text: None)
    assert [(row["nodes"], row["method"]) for row in rows] == [
        (nodes, method) for nodes in (300, 900) for method in scale.METHODS
    ]
    for row in rows:
        assert row["seconds"] > 0
        assert row["peak_bytes"] > row["nodes"] * scale.WIDTH * 4
    assert settings["error"] < 1e-4
    assert 0.7 < scale.exponent(rows, "LRGA + GCN", "peak_bytes") < 1.3
    shares = [row["attention_share"] for row in rows if row["method"] == "LRGA + GCN"]
    assert all(share > 0 for share in shares)
    scale.show(make_record("scale", rows, device="cpu", settings=settings))


def test_softmax_attention_is_left_out_where_it_would_take_too_long():
    rows, settings = scale.run_all("cpu", [30, 90], 1, 0.0, lambda text: None)
    assert "would take more" in rows[-1]["skipped"]
    scale.show(make_record("scale", rows, device="cpu", settings=settings))


def test_wrong_values_are_not_timed(monkeypatch):
    true = scale.make_model
    calls = iter([1.0, 2.0])

    def shifted(method, device):
        model = true(method, device)
        model.head.mlp.lins[-1].bias.data += next(calls)
        return model

    monkeypatch.setattr(scale, "make_model", shifted)
    with pytest.raises(SystemExit, match="no timing"):
        scale.check("cpu")


def test_the_exponent_is_the_slope_of_the_logarithms():
    rows = [{"nodes": n, "method": "m", "seconds": 3e-9 * n**1.5} for n in (10, 1000, 100_000)]
    assert scale.exponent(rows, "m", "seconds") == pytest.approx(1.5)
    assert scale.exponent(rows, "m", "seconds", least=100_000) is None
