"""Answers questions about the committed entries of a running job's stores, from its driver and its containers.

    questions   the question, the answer, and how the answers of several tasks become one
    committed   a container's stores, as other threads may read them
    answering   the thread of a container that answers
    exchange    the driver's side: questions wait for the container that answers them
    owners      the container of a key
    text        keys and values between bytes and JSON

A container asks its driver for questions, so it has no port of its own. `samzapy.coordinator.web.queries` serves HTTP.
"""
