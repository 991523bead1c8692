"""The files of a store on this machine: where they are, whom they belong to, and whether they may be used."""
