"""What runs of released packages showed, kept as records, and the pages that are made of them."""
