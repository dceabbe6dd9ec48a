"""The live controller as a service: for schedulers of all kinds, with a page for people.

pool_file   POOL.toml: the system, options of the controller, limits of the service
runtime     the service without HTTP: runner, instructions by number, history
wire        requests as typed values, answers as plain ones, errors as problem details (RFC 9457)
access      the token, and the middleware that every request passes first
app         the routes, described by openapi.json, and the page
metrics     the pool for Prometheus
server      sockets, signals, logs, and the reload of token and limits
"""
