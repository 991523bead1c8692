"""The command `samzapy`: `main` finds a verb and turns errors into lines and exit codes; `commands` has the verbs."""
