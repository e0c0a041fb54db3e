"""What surrounds the package: ablations, verification, the theory that trains, the scripts that write pages."""
