"""The macro operations of components: a module here has the component's name, and a `VOCABULARY`."""
