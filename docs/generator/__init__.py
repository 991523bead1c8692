"""Makes the pages of the documentation site from `docs/` and from the code; `make docs` then builds the site.

1. Each page of `docs/` is copied. A line `<!-- generated: NAME -->` is replaced by what the code says: the keys, the
   commands, the metrics, the errors. On a page that is read in the repository the line is invisible.
2. On the pages of the Python interface a name links to its module, where the repository has its docstring. The site
   shows the docstring instead.
3. A link out of `docs/` (a job file, a module, CONTRIBUTING.md) leads to a page below `project/` that shows the file,
   so the site needs no other host.
"""
