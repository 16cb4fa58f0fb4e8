"""A whole engine: the release on a CPU with a tiny model, with its own managers or with ours, under random loads."""
