"""`python -m samzapy`: the command of this very Python."""

from samzapy.cli.main import main

if __name__ == "__main__":
    main()
