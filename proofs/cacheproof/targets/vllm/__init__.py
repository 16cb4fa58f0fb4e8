"""`vllm==X`: released packages, their own cache classes driven in a child process, and the eras that describe them."""
