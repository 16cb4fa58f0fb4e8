"""The fast one: cache control on torch tensors, one code path for CPU and CUDA."""
