"""Questions about the committed entries of a running job's stores."""
