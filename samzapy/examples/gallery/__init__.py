"""Five jobs for five problems. The page `docs/how-to/gallery.md` goes through them.

visits             sessions of clicks: page views become visits
card_fraud         an alert for a payment that is not confirmed in time
shopper_features   a feature store: rows that a model looks up while the job runs
customer_orders    orders joined with a table that arrives as changes of a database
unique_orders      an at-least-once feed without its repetitions
look_up            asks the running shopper_features
load               writes the inputs of each
"""
