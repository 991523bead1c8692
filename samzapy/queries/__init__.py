"""Questions about the committed entries of a running job's stores.

    questions   the question, the containers that are asked, and the answer
    committed   a container's stores, as other threads may read them
    text        keys and values between bytes and JSON

A client asks the driver (`samzapy.coordinator.web.queries`), and the driver asks containers at their ports
(`samzapy.coordinator.web.port`).
"""
