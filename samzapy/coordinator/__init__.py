"""What the driver serves to its containers: the job, leases, stop requests, and what they report."""
