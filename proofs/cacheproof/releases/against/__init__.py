"""Two implementations of a component beside each other: what one answers and shows and the other does not."""
