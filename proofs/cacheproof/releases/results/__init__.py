"""What runs of released packages showed, kept as records, and the pages and scripts that are made of them."""
