"""Explores a scope for any numbers: region by region, until the regions cover every configuration."""
