"""The page of a running job: what a person looks at, drawn from the job's status.

    history   the last ten minutes: rates and lags, in bounded memory
    view      a status and its history -> the rows and figures of the page
    inspector questions about one key of a store, or one message of a stream
    board     a snapshot of the job -> HTML, made once for all who look
    routes    the HTTP addresses of the page

The page knows no coordinator: a function gives it the status. Templates and static files are in this package; no file comes
from another host, and without JavaScript the page reloads itself.
"""
