"""A build backend in the place of setuptools: see `build_meta`."""
