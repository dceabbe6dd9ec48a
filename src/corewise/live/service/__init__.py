"""The live controller as a service: for schedulers of all kinds, with a page to look at.

pool_file   POOL.toml: the system, options of the controller, limits of the service
token       the secret that whoever writes must show
desk        everything but HTTP: journal, controller, solver, instructions by number
feed        instructions by number, and a bell for those who wait
history     what was, thinned out
views       what is, as plain values
wire        the types of the wire; events are those of `corewise.observation.events`
problems    errors as problem details (RFC 9457)
guard       who may ask, how much and how often
app         the routes
stream      server-sent events
reload      the token and the limits, read again
metrics     the pool for Prometheus
server      sockets, signals and logs
"""
