"""Scripts that show a violation on a release with nothing but the released package: written, and run."""
