"""`python -m resettle` is `resettle`."""

from resettle.cli.main import main

if __name__ == "__main__":
    main()
