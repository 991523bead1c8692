"""The `samzapy` command. `main` finds the commands; each lives in the module of its name."""
