"""The driver's service for its containers: the job, leases, stop requests and reports."""
