"""The bugs, one module for each component that releases are driven for; its name is the component's.

`historic_COMPONENT` has bugs of vLLM that were fixed in public, put back into the classes of 0.33.0. Each names the
number of its fix, and of a report if there is one beside it. The facts are from these threads; patches and sentences
are ours.
"""
