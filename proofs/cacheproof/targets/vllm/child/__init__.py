"""What runs in an environment of a released package, and therefore imports nothing of cacheproof."""
