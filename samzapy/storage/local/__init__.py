"""The files of a store on this machine: their place, their owner, and the check whether they may be used."""
