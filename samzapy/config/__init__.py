"""Turns the job file into frozen values. Nothing else of samzapy reads property keys."""
