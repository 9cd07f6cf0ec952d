"""Server-sent events: a page is sent its fragment again when something on it has changed.

Read ``feeds`` (what each connection is sent, and when: a state machine without clock, store or
socket), then ``wire`` (events as bytes, compressed once for all), ``renderings`` (each page
rendered once for all requests of a second), ``standby`` (pages rendered before they are opened),
``hub`` (feeds in an event loop) and ``stream`` (one open connection).

In the browser ``static/live.js`` reads the stream by ``EventSource`` and idiomorph morphs the
fragment into the page. There is no htmx: pages are links and forms, and a stream that is paused,
resumed and watched needs hooks that its extension does not have.
"""
