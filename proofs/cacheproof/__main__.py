"""`python -m cacheproof` is the command line."""

from cacheproof.command import main

if __name__ == "__main__":
    main()
