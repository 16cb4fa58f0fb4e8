"""Examples are run by the tests that are about them, in copies."""

collect_ignore = ["sample_project"]
