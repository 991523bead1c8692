"""The version of samzapy; the build reads it here."""

VERSION = "0.1.0"
