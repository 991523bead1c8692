"""The web page of a running job, rendered from the job's status.

    history   rates and lags of the last ten minutes, in bounded memory
    view      a status and its history -> the rows and figures of the page
    inspector questions about one key of a store, or one message of a stream
    board     a snapshot of the job -> HTML, rendered once for all readers
    routes    the HTTP addresses of the page

The page does not depend on the coordinator: a function returns the status. Templates and static files are in this
package; nothing is loaded from another host, and without JavaScript the page reloads itself.
"""
