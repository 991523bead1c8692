"""The version of samzapy; the build reads it here."""

VERSION = "0.2.0.dev0"


def refusal(driver: str) -> str:
    """The reason why an executor with this version does not work for a driver with another one, and the remedy."""
    return f"samzapy {VERSION} is installed for the executor's Python, the driver has {driver}: install {driver} there"
