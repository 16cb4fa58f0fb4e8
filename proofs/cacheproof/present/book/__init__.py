"""The book: pages whose generated parts are filled from the specification, the scope files and the kept traces."""
