"""samzapy."""
