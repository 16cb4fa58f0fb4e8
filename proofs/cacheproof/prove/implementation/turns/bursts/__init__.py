"""The bursts of each component that are proved for any number of turns, by the component's name."""
