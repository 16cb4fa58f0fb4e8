"""The bugs, one module for each component that releases are driven for; its name is the component's."""
