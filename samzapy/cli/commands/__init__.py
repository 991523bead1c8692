"""The verbs of `samzapy`, each in the module of its name; `samzapy.cli.main` imports a verb when it is called."""
