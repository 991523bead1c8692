"""One coordinator and the reports of a thousand containers over HTTP, with strangers and a page beside them."""
