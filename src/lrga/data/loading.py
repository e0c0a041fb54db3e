"""A data set by its name: built on first use, verified, loaded.

Every set is one module of this package, found through :data:`BUILDERS`. Such a module offers three names
(:class:`lrga.data.place.Builder`)::

    RECIPE_VERSION = 1

    def options(*, seed: int = 41, sizes: Sequence[int] | None = None) -> dict[str, Any]:
        ...  # keyword-only, each with a default; checks the values (OptionError) and returns them all as JSON values

    def build(place: BuildPlace, *, seed: int, sizes: list[int]) -> dict[str, PackedGraphs]:
        ...  # {"train": …, "val": …, "test": …}; place.raw, .work, .source, .workers, .progress, .download

A finished set lies in ``ROOT/NAME/VARIANT/{train,val,test}.safetensors`` with ``manifest.json`` beside it, where
VARIANT names the options that differ from their defaults. Downloads lie in ``ROOT/NAME/raw``.
"""
