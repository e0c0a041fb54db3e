from importlib.metadata import version

import lrga


def test_the_installed_version_is_the_one_in_the_source():
    assert version("lrga") == lrga.__version__
