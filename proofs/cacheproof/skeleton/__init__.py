"""The files that `cacheproof init` makes: a target that runs at once, because the specification stands in for it.

`calls` says what the operations of a component are called and take, `in_python` and `over_lines` are the two sorts of
target, `workflow` is the file for GitHub Actions; `files` says which of them there are.
"""
