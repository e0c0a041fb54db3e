"""Code around the package: ablations, verification, theory experiments with training, scripts that write pages."""
