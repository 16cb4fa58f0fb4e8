"""Our own implementation as contenders. Torch is used with one thread."""
